"""Hardening: make an intervention from a learned distribution over masks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool
from torch import Tensor

from pivotal.problem.objective import Terms
from pivotal.problem.problem import Problem
from pivotal.searches.base import Attempt, Discovery, Stages
from pivotal.searches.tools import HardMasks, Prices, RunValues, SetMask, SoftMasks
from pivotal.searches.tools.refit import FITTED, RATE, Refit

_SAMPLE = 512
"""Number of distinct training prefixes on which stages are scored and units are pruned, unless the fit is quick."""
_COMPARED = 256
"""Number of distinct training prefixes on which units are compared before they are removed."""
_LOOK = 10
"""Number of updates of a refit between two scores."""
_SOON = 5
"""The same for a quick refit."""
_TOLERANCE = 0.001
"""A quick refit ends when its score falls by a smaller share."""
_POSITIONS = 128
"""Number of drawn positions at which a refit measures the KL of its scores."""
_KL_ONLY = 1e4
"""A price of KL so high that the loss is negligible."""


@dataclass(frozen=True)
class Hardening:
    """The steps from a relaxed mask to an intervention.

    Refit the values. Remove half of the surplus units and refit, until the budget is kept. Remove more units if the
    bound on KL is still exceeded. Prune units that add nothing, and refit again.
    """

    terms: Terms
    refit: int
    """Updates of the values with a fixed hard mask. 0 keeps the learned values."""
    prune: float
    """Remove a unit if that loses at most this share of the flips on training pairs. Negative keeps all units."""
    batch: int
    shared: bool
    """One mask for both directions, or one mask per direction."""
    quick: bool = False
    """Fit in few large steps on few prefixes, and stop when nothing more is gained: for values near their best. With
    bounds on changes, values converge only after many small steps on all prefixes."""

    def run(
        self,
        problem: Problem,
        relaxed: SoftMasks | None,
        mask: HardMasks,
        values: RunValues,
        budget: int,
        attempt: Attempt,
    ) -> Discovery:
        """Harden `mask`, which may have more units than the budget. `relaxed` is the expected mask, if there is one; it
        is only scored."""
        seed = attempt.seed
        compared = problem.sample(_COMPARED, seed)
        sample = compared if self._quick else problem.sample(_SAMPLE, seed)
        price = self.terms.weights(problem).repeat(len(values), 1)
        stages = Stages(self.terms, sample, attempt)
        if relaxed is not None:
            stages.add("relaxed", relaxed, values)
        stages.add("hard", mask.float(), values)
        if self.refit:
            everyone = torch.ones(len(mask), dtype=torch.bool, device=mask.device)
            values, price = self._refitted(problem, mask, values, price, everyone, budget, seed)
            stages.add("refit", mask.float(), values)
        while True:
            most = sizes(mask, self.shared)
            # Some units cause much KL at any value. If no refit kept the bound, remove one of them.
            costly = [
                bool(self.refit) and out and n <= budget for n, out in zip(most, stages.costly, strict=True)
            ]
            allowed = [max(1, n - 1) if out else budget for n, out in zip(most, costly, strict=True)]
            if all(n <= few for n, few in zip(most, allowed, strict=True)):
                break
            price[costly, 0] = _KL_ONLY
            less = thin(compared, self.terms, price, mask, values, allowed, shared=self.shared)
            changed, mask = differing(less, mask), less
            values, price = self._refitted(problem, mask, values, price, changed, budget, seed)
            if self.terms.bounded or not any(n > budget for n in sizes(mask, self.shared)):
                stages.add("thinned", mask.float(), values)
        if self.prune >= 0:
            less = prune(sample, self.terms, mask, values, self.prune, shared=self.shared)
            changed, mask = differing(less, mask), less
            values, _ = self._refitted(problem, mask, values, price, changed, budget, seed)
        stages.add("final", mask.float(), values)
        return stages.discovery(problem, mask, values)

    def _refitted(
        self,
        problem: Problem,
        mask: HardMasks,
        values: RunValues,
        price: Prices,
        chosen: Bool[Tensor, " runs"],
        budget: int,
        seed: int,
    ) -> tuple[RunValues, Prices]:
        """Values and prices with those of the chosen runs fitted anew. A run that will be thinned further gets half of
        the updates, because its values only have to tell its units apart."""
        if not self.refit:
            return values, price
        values, price = values.clone(), price.clone()
        over = torch.tensor([n > budget for n in sizes(mask, self.shared)], device=mask.device)
        part = problem.sample(FITTED if self._quick else 0, seed)
        for updates, some in ((self.refit // 2, chosen & over), (self.refit, chosen & ~over)):
            if bool(some.any()):
                refit = self._refit(updates)
                fitted = refit.fit(part, mask[some].float(), values[some], seed=seed)
                values[some], price[some] = fitted.values, fitted.price
        return values, price

    def _refit(self, updates: int) -> Refit:
        # Values converge to a bound only if the updates agree on where it is.
        batch = 2 * self.batch if self.terms.bounded else self.batch
        if self._quick:
            looks = max(1, updates // _SOON)
            return Refit(self.terms, updates, RATE, batch, looks, _POSITIONS, _TOLERANCE, priced=True)
        return Refit(self.terms, updates, batch=batch, looks=max(1, updates // _LOOK), positions=_POSITIONS)

    @property
    def _quick(self) -> bool:
        return self.quick and self.terms.max_change is None


_KL_NODES = 96


@dataclass(frozen=True, slots=True)
class _Part:
    """The part of a mask that one budget applies to: a run's mask, or its mask for one direction."""

    run: int
    directions: slice

    def units(self, mask: Tensor) -> list[int]:
        return mask[self.run, self.directions].any(0).nonzero()[:, 0].tolist()

    def without(self, mask: Tensor, unit: int) -> SetMask:
        less = mask[self.run].clone()
        less[self.directions, unit] = False
        return less


def _parts(mask: HardMasks, shared: bool) -> list[_Part]:
    directions = [slice(None)] if shared else [slice(d, d + 1) for d in range(mask.shape[1])]
    return [_Part(run, rows) for run in range(len(mask)) for rows in directions]


def sizes(mask: HardMasks, shared: bool) -> list[int]:
    """The number of units in the largest part of each run."""
    most: list[int] = (mask.any(1).sum(1) if shared else mask.sum(2).amax(1)).tolist()
    return most


def differing(mask: HardMasks, other: HardMasks) -> Bool[Tensor, " runs"]:
    """Whether the two masks of each run differ."""
    return (mask != other).flatten(1).any(1)


def thin(
    problem: Problem,
    terms: Terms,
    price: Prices,
    mask: HardMasks,
    values: RunValues,
    budgets: Sequence[int],
    *,
    shared: bool,
) -> HardMasks:
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
        loss = terms.loss(outcome, drawn)
        costs = terms.costs(problem, outcome, drawn)
        worth += (loss + (price[[part.run for part, _ in some]] * costs.abs()).sum(1)).tolist()
    for part in over:
        ranked = sorted((w, unit) for w, (p, unit) in zip(worth, trials, strict=True) if p == part)
        for _, unit in ranked[: math.ceil((len(ranked) - budgets[part.run]) / 2)]:
            mask[part.run, part.directions, unit] = False
    return mask


def prune(
    problem: Problem, terms: Terms, mask: HardMasks, values: RunValues, tolerance: float, *, shared: bool
) -> HardMasks:
    """Remove the unit of each run with the least effect, one at a time, while at most `tolerance` of the flips is lost,
    or of what is closed of the way to the counterfactual.

    A unit may flip nothing and yet be needed, because it undoes what the others do to a kept question. So a removal
    must not exceed a bound that was kept, or exceed a broken bound further.
    """
    mask = mask.clone()
    if terms.max_kl is None:
        terms = replace(terms, kl_weight=0.0)  # only bounds are looked at
    drawn = terms.draw(problem, torch.Generator().manual_seed(0), _KL_NODES)
    with torch.no_grad():
        outcome = problem.run(mask.float(), values)
        best = terms.reached(problem, outcome, drawn).tolist()
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
            accuracy += torch.where(within, terms.reached(problem, outcome, drawn), -torch.inf).tolist()
        ranked = sorted(zip(accuracy, trials, strict=True), key=lambda one: (one[0], one[1][1]))
        for run, (reached, part, unit) in {p.run: (a, p, u) for a, (p, u) in ranked}.items():
            if reached >= best[run] - tolerance:
                mask[run, part.directions, unit] = False
                best[run] = max(best[run], reached)
            else:
                parts = [one for one in parts if one.run != run]


@torch.no_grad()
def _outcomes(problem: Problem, mask: Tensor, values: Tensor, trials: list[tuple[_Part, int]]) -> Iterator:
    """Run the trials in chunks that fit into memory. A trial is the mask of a run without one unit."""
    at_once = problem.runs_at_once()
    for start in range(0, len(trials), at_once):
        some = trials[start : start + at_once]
        tried = torch.stack([part.without(mask, unit) for part, unit in some])
        yield some, problem.run(tried.float(), values[[part.run for part, _ in some]])
