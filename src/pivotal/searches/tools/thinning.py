"""Make a hard mask smaller: remove the units with the least effect."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pivotal.problem.objective import Terms
from pivotal.problem.problem import Problem

_KL_NODES = 96


@dataclass(frozen=True, slots=True)
class _Part:
    """The part of a mask that one budget applies to: a run's mask, or its mask for one direction."""

    run: int
    directions: slice

    def units(self, mask: Tensor) -> list[int]:
        return mask[self.run, self.directions].any(0).nonzero()[:, 0].tolist()

    def without(self, mask: Tensor, unit: int) -> Bool[Tensor, "directions units"]:
        less = mask[self.run].clone()
        less[self.directions, unit] = False
        return less


def _parts(mask: Bool[Tensor, "runs directions units"], shared: bool) -> list[_Part]:
    directions = [slice(None)] if shared else [slice(d, d + 1) for d in range(mask.shape[1])]
    return [_Part(run, rows) for run in range(len(mask)) for rows in directions]


def sizes(mask: Bool[Tensor, "runs directions units"], shared: bool) -> list[int]:
    """The number of units in the largest part of each run."""
    found = [0] * len(mask)
    for part in _parts(mask, shared):
        found[part.run] = max(found[part.run], len(part.units(mask)))
    return found


def differing(
    mask: Bool[Tensor, "runs directions units"], other: Bool[Tensor, "runs directions units"]
) -> Bool[Tensor, " runs"]:
    """Whether the two masks of each run differ."""
    return (mask != other).flatten(1).any(1)


def thin(
    problem: Problem,
    terms: Terms,
    price: Float[Tensor, "runs bounds"],
    mask: Bool[Tensor, "runs directions units"],
    values: Float[Tensor, "runs directions coordinates"],
    budgets: Sequence[int],
    *,
    shared: bool,
) -> Bool[Tensor, "runs directions units"]:
    """Remove half of the surplus units of every run that has more units than its budget.

    Units are ranked by the loss without them, including KL and other bounded costs times their prices. A unit with
    much KL for its effect is removed first, so that the other units can use the freed KL.
    """
    mask = mask.clone()
    over = [part for part in _parts(mask, shared) if len(part.units(mask)) > budgets[part.run]]
    trials = [(part, unit) for part in over for unit in part.units(mask)]
    # All trials measure KL at the same positions, so that only the units differ.
    drawn = terms.draw(problem, torch.Generator().manual_seed(0), _KL_NODES)
    worth: list[float] = []
    for some, outcome in _outcomes(problem, mask, values, trials):
        loss = terms.loss(outcome)
        costs = terms.costs(problem, outcome, drawn)
        worth += (loss + (price[[part.run for part, _ in some]] * costs.abs()).sum(1)).tolist()
    for part in over:
        ranked = sorted((w, unit) for w, (p, unit) in zip(worth, trials, strict=True) if p == part)
        for _, unit in ranked[: math.ceil((len(ranked) - budgets[part.run]) / 2)]:
            mask[part.run, part.directions, unit] = False
    return mask


def prune(
    problem: Problem,
    terms: Terms,
    mask: Bool[Tensor, "runs directions units"],
    values: Float[Tensor, "runs directions coordinates"],
    tolerance: float,
    *,
    shared: bool,
) -> Bool[Tensor, "runs directions units"]:
    """Remove the unit with the least effect, one at a time, while at most `tolerance` of the flips is lost.

    A unit may flip nothing and yet be needed, because it undoes what the others do to a kept question. So a removal
    must not exceed a bound that was kept, or exceed a broken bound further.
    """
    mask = mask.clone()
    with torch.no_grad():
        outcome = problem.run(mask.float(), values)
        best = outcome.flips().tolist()
        allowed = terms.excess(problem, terms.costs(problem, outcome)).clamp(min=1)
    parts = _parts(mask, shared)
    while True:
        parts = [part for part in parts if len(part.units(mask)) > 1]
        trials = [(part, unit) for part in parts for unit in part.units(mask)]
        if not trials:
            return mask
        accuracy: list[float] = []
        for some, outcome in _outcomes(problem, mask, values, trials):
            excess = terms.excess(problem, terms.costs(problem, outcome))
            within = excess <= allowed[[part.run for part, _ in some]]
            accuracy += torch.where(within, outcome.flips(), -torch.inf).tolist()
        going_on = []
        for part in parts:
            reached, unit = max((a, u) for a, (p, u) in zip(accuracy, trials, strict=True) if p == part)
            if reached >= best[part.run] - tolerance:
                mask[part.run, part.directions, unit] = False
                best[part.run] = max(best[part.run], reached)
                going_on.append(part)
        parts = going_on


@torch.no_grad()
def _outcomes(problem: Problem, mask: Tensor, values: Tensor, trials: list[tuple[_Part, int]]) -> Iterator:
    """Run the trials in chunks that fit into memory. A trial is the mask of a run without one unit."""
    at_once = problem.runs_at_once()
    for start in range(0, len(trials), at_once):
        some = trials[start : start + at_once]
        tried = torch.stack([part.without(mask, unit) for part, unit in some])
        yield some, problem.run(tried.float(), values[[part.run for part, _ in some]])
