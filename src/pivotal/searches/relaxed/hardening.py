"""Hardening: make an intervention from a learned distribution over masks."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from jaxtyping import Bool, Float
from torch import Tensor

from pivotal.problem.objective import Terms
from pivotal.problem.problem import Problem
from pivotal.searches.base import Attempt, Discovery, Stages
from pivotal.searches.tools.refit import Refit
from pivotal.searches.tools.swaps import Exchanger, masks_and_values
from pivotal.searches.tools.thinning import prune, sizes, thin

FEWEST = 20
"""Minimum number of updates that a budget allows; fewer find nothing."""
_SAMPLE = 512
"""Number of distinct training prefixes on which units are compared and stages are scored."""
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
        sample = problem.sample(_SAMPLE, seed)
        refit = self._refit
        price = self.terms.weights(problem).repeat(len(values), 1)
        stages = Stages(self.terms, sample, attempt)
        stages.add("relaxed", relaxed, values)
        stages.add("hard", mask.float(), values)
        if self.refit:
            fitted = refit.fit(problem, mask.float(), values, seed=seed)
            values, price = fitted.values, fitted.price
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
            mask = thin(sample, self.terms, price, mask, values, allowed, shared=self.shared)
            if self.refit:
                fitted = replace(refit, updates=self.refit // 2).fit(problem, mask.float(), values, seed=seed)
                values, price = fitted.values, fitted.price
            stages.add("thinned", mask.float(), values)
        if self.prune >= 0:
            mask = prune(sample, self.terms, mask, values, self.prune, shared=self.shared)
        if self.exchange:
            mask, values = masks_and_values(self._exchanger.improve(problem, mask, values, seed))
            stages.add("exchanged", mask.float(), values)
        if self.refit:
            values = refit.fit(problem, mask.float(), values, seed=seed).values
        stages.add("final", mask.float(), values)
        return stages.discovery(problem, mask, values)

    def nodes(self, problem: Problem, runs: int, units: int, budget: int) -> int:
        """The approximate number of node evaluations from `units` to `budget` units, without pruned units."""
        each = runs * problem.sample(_SAMPLE).tree.n_live
        total = 3 * each
        if self.refit:
            total += each + 2 * self._refit.nodes(problem, runs)
        while units > budget:
            total += (units + 1) * each
            if self.refit:
                total += replace(self._refit, updates=self.refit // 2).nodes(problem, runs)
            units -= math.ceil((units - budget) / 2)
        if self.exchange:
            beginning, round_ = self._exchanger.nodes(problem, runs, units)
            total += beginning + self.exchange * round_
        return total + ((units + 1) * each if self.prune >= 0 else 0)

    @property
    def _refit(self) -> Refit:
        return Refit(terms=self.terms, updates=self.refit, batch=self.batch)

    @property
    def _exchanger(self) -> Exchanger:
        return Exchanger(self.terms, batch=self.batch, rounds=self.exchange)
