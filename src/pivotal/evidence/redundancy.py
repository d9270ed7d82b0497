"""Redundancy: the same search without the units that it found, and again, until what it finds flips no more than random
sets do. Units that are not necessary have others beside them that say the same."""

from __future__ import annotations

from collections.abc import Callable

import torch

from pivotal.evidence.checks import necessity
from pivotal.evidence.examination import Examination
from pivotal.evidence.fidelity import fidelity_of
from pivotal.models.edits import dense
from pivotal.problem.problem import Problem
from pivotal.records.evidence import FurtherSet, Redundancy
from pivotal.records.run import Progress
from pivotal.searches.base import Search, interventions_of

_MOST = 5
"""The most further sets that are searched for."""


def redundancy(
    search: Search,
    examination: Examination,
    train: Problem,
    level: float,
    seed: int,
    progress: Callable[[Progress], None],
) -> Redundancy:
    """Search again without the units of the examined intervention, then without those of the next set too, and so on.
    A further set counts if the 95% interval of its flips lies above `level`."""
    test, (union, values) = examination.problem, examination.edit
    sets: list[FurtherSet] = []
    ended = False
    while not ended and len(sets) < _MOST:
        progress(Progress("further sets", len(sets), _MOST))
        used = union.amax((0, 1)) > 0
        left = train.without([train.space.unit(flat) for flat in used.nonzero()[:, 0].tolist()])
        mask, at = dense(search.solve(left, runs=1, seed=seed).best, train.space, train.model.device)
        mask = mask * ~used  # a search may hand over a unit that it could not set
        if ended := not mask.any():
            break
        (found,) = interventions_of(train, mask.bool(), at)
        further = Examination(found, test)
        closed, flipped = fidelity_of(further), further.share(further.flipped)
        sets.append(
            FurtherSet(
                units=tuple(map(str, found.units)),
                flipped=flipped,
                kl=further.kl,
                fidelity=None if closed is None else closed.asked.value,
            )
        )
        ended = flipped.low <= level
        union = union if ended else torch.maximum(union, mask)
    (together,) = interventions_of(train, union.bool(), values)
    several = len(together) > len(examination.intervention)
    held = necessity(Examination(together, test), seed) if several else None
    return Redundancy(level=level, ended=ended, sets=tuple(sets), held=held)
