"""Side effects: other phenomena with the intervention applied."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from pivotal.evidence.intervals import shares_of
from pivotal.models.base import LanguageModel
from pivotal.models.edits import dense
from pivotal.problem.examples import Examples
from pivotal.problem.problem import Problem
from pivotal.questions.pairs import PairSet
from pivotal.records.evidence import Effect
from pivotal.records.intervention import Intervention
from pivotal.units import Steps

PAIRS = 200
"""The most pairs of another phenomenon that are asked."""


def prepared(model: LanguageModel, pairs: PairSet, steps: Steps, most: int = PAIRS) -> Examples:
    """At most `most` pairs of a phenomenon, ready to be asked. They serve many interventions."""
    return Examples.of(model, pairs.at_most(most), steps)


@torch.no_grad()
def effect_on(
    intervention: Intervention,
    model: LanguageModel,
    pairs: PairSet | Examples,
    *,
    labels: Mapping[str, str] | None = None,
    most: int = PAIRS,
) -> Effect:
    """Ask another phenomenon with the intervention applied, towards each of its directions. At most `most` pairs are
    asked; `pairs` may be prepared for the intervention's steps already.

    `labels` maps the labels of the pairs to directions of the intervention. By default equal labels are mapped. If both
    labels are mapped, the phenomenon is related: each preference is also edited towards the other word.
    """
    model = model.in_bases(intervention.bases)
    sites = ",".join(dict.fromkeys(unit.site for unit in intervention.units))
    if isinstance(pairs, PairSet):
        pairs = prepared(model, pairs, intervention.steps, most)
    problem = Problem(model, pairs, sites=sites, steps=intervention.steps)
    mask, values = dense(intervention, problem.space, model.device)
    share = shares_of(problem.prefix_ids)
    expected = _expected(problem)
    after = {}
    for d, direction in enumerate(intervention.directions):
        log_ratio = problem.edited_towards([d, d]).run(mask, values).log_ratio[0].cpu().numpy()
        preferred = np.where(log_ratio > 0, 1 - problem.direction, problem.direction)
        after[direction] = share(preferred == expected)
    flipped = None
    to = _directions(intervention, problem.labels, labels)
    if to is not None:
        # Each preference is edited towards the direction that its target label maps to.
        flipped = share(problem.edited_towards(to).run(mask, values).flipped()[0].cpu().numpy())
    return Effect(
        phenomenon=problem.pairs.name,
        pairs=len(problem),
        related=to is not None,
        flipped=flipped,
        untouched=share((1 - problem.direction) == expected),
        edited=after,
    )


def _directions(
    intervention: Intervention, labels: tuple[str, str], given: Mapping[str, str] | None
) -> list[int] | None:
    """For each label, the index of the direction that it maps to; None if the labels do not map to both directions."""
    names = [(given or {}).get(label, label) for label in labels]
    if sorted(names) != sorted(intervention.directions):
        return None
    return [intervention.direction(name) for name in names]


def _expected(problem: Problem) -> np.ndarray:
    """The index of the expected label of each pair; the preferred one if the pair states none."""
    index = {label: i for i, label in enumerate(problem.labels)}
    return np.array(
        [
            index[pair.label] if pair.label else 1 - int(direction)
            for pair, direction in zip(problem.pairs, problem.direction, strict=True)
        ]
    )
