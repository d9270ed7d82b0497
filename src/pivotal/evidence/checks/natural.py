"""The natural range: the same units with their values moved to where their own states are."""

from __future__ import annotations

import torch

from pivotal.evidence.intervals import shares_of
from pivotal.models.edits import dense
from pivotal.problem.problem import Problem
from pivotal.records.evidence import Natural, UnitRange
from pivotal.records.intervention import Intervention


@torch.no_grad()
def natural_range(intervention: Intervention, problem: Problem) -> Natural:
    """Score the intervention with each value clamped to the 1st and 99th percentile of the unit's states at the edited
    steps."""
    mask, values = dense(intervention, problem.space, problem.model.device)
    outcome = problem.run(mask, values.clamp(*problem.natural_range()))
    flipped = outcome.flipped()[0].cpu().numpy()
    share = shares_of(problem.prefix_ids)
    return Natural(
        ranges=_ranges(intervention, problem),
        flipped=share(flipped),
        by_direction={
            label: share(flipped, problem.direction == d)
            for d, label in enumerate(problem.labels)
            if (problem.direction == d).any()
        },
        kl=float(problem.mean_kl(outcome.states)[0]),
    )


def _ranges(intervention: Intervention, problem: Problem) -> tuple[UnitRange, ...]:
    if any(unit.size > 1 for unit in intervention.units):
        return ()
    lows, highs = problem.natural_range()
    found = []
    for i, unit in enumerate(intervention.units):
        (place,) = problem.space.places(unit)
        values = {label: row[i] for label, row in intervention.shown_values.items()}
        low, high = float(lows[place]), float(highs[place])
        found.append(UnitRange(unit=str(unit), low=low, high=high, values=values))
    return tuple(found)
