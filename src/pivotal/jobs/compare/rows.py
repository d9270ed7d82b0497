"""A row of a comparison: what a search found with one number of units, on held-out pairs, and its cost."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence

from pivotal.evidence.scores import score_many
from pivotal.problem.objective import TOLERANCE
from pivotal.problem.problem import Problem
from pivotal.records.comparison import ComparedRun, ComparisonRow, Mode, RunSpread
from pivotal.records.intervention import Intervention
from pivotal.searches.base import Point, Search


def row_of(
    label: str, mode: Mode, point: Point, search: Search, test: Problem, *, seed: int
) -> tuple[ComparisonRow, list[Intervention]]:
    """The row, and the interventions with their scores on the card."""
    found = point.found
    flipped, kl, kl_after = score_many(found.interventions, test)
    runs = tuple(
        ComparedRun(
            seed=seed + r,
            flip_accuracy=float(flipped[r].mean()),
            units=len(intervention),
            kl=float(kl[r]),
            kl_after_edit=float(kl_after[r]),
            train_score=float(found.train_score[r]),
            unit_ids=tuple(test.space.flat(unit) for unit in intervention.units),
            unit_labels=tuple(str(unit) for unit in intervention.units),
            unit_numbers=tuple(unit.number for unit in intervention.units),
        )
        for r, intervention in enumerate(found.interventions)
    )
    scored = [
        dataclasses.replace(i, scores={k: getattr(run, k) for k in ("flip_accuracy", "kl", "kl_after_edit")})
        for i, run in zip(found.interventions, runs, strict=True)
    ]
    best, max_kl = found.best_run, search.terms.max_kl
    row = ComparisonRow(
        search=label,
        mode=mode,
        size=point.size,
        seeds=tuple(run.seed for run in runs),
        best=best,
        flip_accuracy=_spread([run.flip_accuracy for run in runs], best),
        units=_spread([run.units for run in runs], best),
        kl=_spread([run.kl for run in runs], best),
        kl_after_edit=_spread([run.kl_after_edit for run in runs], best),
        max_kl=max_kl,
        kl_bound_kept=None if max_kl is None else sum(run.kl <= TOLERANCE * max_kl for run in runs),
        forward_nodes=point.cost.forward,
        backward_nodes=point.cost.backward,
        seconds=round(point.cost.seconds, 3),
        runs=runs,
    )
    return row, scored


def _spread(values: Sequence[int | float], best: int) -> RunSpread:
    return RunSpread(
        mean=statistics.fmean(values),
        sd=statistics.stdev(values) if len(values) > 1 else None,
        min=min(values),
        max=max(values),
        median=statistics.median(values),
        best=values[best],
    )
