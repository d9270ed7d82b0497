"""Hardening: make an intervention from a learned distribution over masks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pivotal.problem.objective import Terms
from pivotal.problem.problem import Problem
from pivotal.searches.base import Attempt, Discovery, Stages
from pivotal.searches.tools.refit import Refit
from pivotal.searches.tools.swaps import Exchanger, masks_and_values
from pivotal.searches.tools.thinning import differing, prune, sizes, thin

FEWEST = 20
"""Minimum number of updates that a budget allows; fewer find nothing."""
_SAMPLE = 512
"""Number of distinct training prefixes on which stages are scored and units are pruned."""
_COMPARED = 256
"""Number of distinct training prefixes on which units are compared before they are removed."""
_LOOK = 10
"""Number of updates of a refit between two scores."""
_POSITIONS = 128
"""Number of drawn positions at which a refit measures the KL of its scores."""
_KL_ONLY = 1e4
"""A price of KL so high that the loss is negligible."""


@dataclass(frozen=True)
class Hardening:
    """The steps from a relaxed mask to an intervention.

    Refit the values. Remove half of the surplus units and refit, until the budget is kept. Remove more units if the
    bound on KL is still exceeded. Prune units that add nothing, swap units if that lowers the loss, and refit again.
    """

    terms: Terms
    refit: int
    """Updates of the values with a fixed hard mask. 0 keeps the learned values."""
    prune: float
    """Remove a unit if that loses at most this share of the flips on training pairs. Negative keeps all units."""
    batch: int
    shared: bool
    """One mask for both directions, or one mask per direction."""
    exchange: int = 0
    """Maximum number of swaps before the last refit."""

    def run(
        self,
        problem: Problem,
        relaxed: Float[Tensor, "runs directions units"],
        mask: Bool[Tensor, "runs directions units"],
        values: Float[Tensor, "runs directions coordinates"],
        budget: int,
        attempt: Attempt,
    ) -> Discovery:
        """Harden `mask`, which may have more units than the budget. `relaxed` is the expected mask, scored only."""
        seed = attempt.seed
        sample, compared = problem.sample(_SAMPLE, seed), problem.sample(_COMPARED, seed)
        price = self.terms.weights(problem).repeat(len(values), 1)
        stages = Stages(self.terms, sample, attempt)
        stages.add("relaxed", relaxed, values)
        stages.add("hard", mask.float(), values)
        everyone = torch.ones(len(mask), dtype=torch.bool, device=mask.device)
        if self.refit:
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
            values, price = self._refitted(problem, mask, values, price, changed, budget, seed)
        if self.exchange:
            mask, values = masks_and_values(self._exchanger.improve(problem, mask, values, seed))
            stages.add("exchanged", mask.float(), values)
            values, _ = self._refitted(problem, mask, values, price, everyone, budget, seed)
        stages.add("final", mask.float(), values)
        return stages.discovery(problem, mask, values)

    def _refitted(
        self,
        problem: Problem,
        mask: Bool[Tensor, "runs directions units"],
        values: Float[Tensor, "runs directions coordinates"],
        price: Float[Tensor, "runs bounds"],
        chosen: Bool[Tensor, " runs"],
        budget: int,
        seed: int,
    ) -> tuple[Float[Tensor, "runs directions coordinates"], Float[Tensor, "runs bounds"]]:
        """Values and prices with those of the chosen runs fitted anew. A run that will be thinned further gets half of
        the updates, because its values only have to tell its units apart."""
        if not self.refit:
            return values, price
        values, price = values.clone(), price.clone()
        over = torch.tensor([n > budget for n in sizes(mask, self.shared)], device=mask.device)
        for updates, some in ((self.refit // 2, chosen & over), (self.refit, chosen & ~over)):
            if bool(some.any()):
                refit = self._refit(updates)
                fitted = refit.fit(problem, mask[some].float(), values[some], seed=seed)
                values[some], price[some] = fitted.values, fitted.price
        return values, price

    def nodes(self, problem: Problem, runs: int, units: int, budget: int) -> int:
        """The approximate number of node evaluations from `units` to `budget` units, without pruned units."""
        each = runs * problem.sample(_SAMPLE).tree.n_live
        compared = runs * problem.sample(_COMPARED).tree.n_live
        total = 3 * each
        if self.refit:
            total += each + self._refit(self.refit).nodes(problem, runs)
            if units > budget:
                total += each + self._refit(self.refit // 2).nodes(problem, runs)
        while units > budget:
            total += units * compared
            units -= math.ceil((units - budget) / 2)
            if self.refit and units > budget:
                total += self._refit(self.refit // 2).nodes(problem, runs)
        if self.exchange:
            beginning, round_ = self._exchanger.nodes(problem, runs, units)
            total += beginning + self.exchange * round_
        return total + ((units + 1) * each if self.prune >= 0 else 0)

    def _refit(self, updates: int) -> Refit:
        # Values converge to a bound only if the updates agree on where it is.
        batch = 2 * self.batch if self.terms.bounded else self.batch
        return Refit(self.terms, updates, batch=batch, looks=max(1, updates // _LOOK), positions=_POSITIONS)

    @property
    def _exchanger(self) -> Exchanger:
        return Exchanger(self.terms, batch=self.batch, rounds=self.exchange)
