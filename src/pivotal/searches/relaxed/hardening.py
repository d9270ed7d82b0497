"""From a mask learned as probabilities to an intervention: the same road for whatever estimated its gradient."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pivotal.problem.objective import Terms
from pivotal.problem.problem import Problem
from pivotal.searches.base import Discovery, Progress, Stages, interventions_of
from pivotal.searches.tools.refit import Refit
from pivotal.searches.tools.swaps import Exchanger
from pivotal.searches.tools.thinning import prune, sizes, thin

FEWEST = 20
"""Updates below which no budget takes a search that learns a mask: fewer find nothing."""
_SAMPLE = 512
"""Distinct training prefixes on which units are compared and stages are scored."""
_DEAR = 1e4
"""A price of KL beside which the loss does not count."""


@dataclass(frozen=True)
class Hardening:
    """Refit the values, let go of half of the surplus units at a time with a refit after each round, and of more units
    where the bound on KL is not kept; prune what adds nothing, swap units where that helps, refit once more."""

    terms: Terms
    refit: int
    """Updates of the values alone on a hard mask; 0 keeps the values as learned."""
    prune: float
    """A unit is let go if that costs no more than this share of the flips on training pairs; negative keeps all."""
    batch: int
    shared: bool
    """One mask for both directions, or one each."""
    exchange: int = 0
    """Swaps of one unit at most, each made while it helps, before the last refit."""

    def run(
        self,
        problem: Problem,
        relaxed: Float[Tensor, "runs directions units"],
        mask: Bool[Tensor, "runs directions units"],
        values: Float[Tensor, "runs directions coordinates"],
        budget: int,
        *,
        seed: int,
        progress: Callable[[Progress], None] | None = None,
    ) -> Discovery:
        """`relaxed` is the expected mask, for the record; `mask` the hard one, which may be larger than the budget."""
        sample = problem.sample(_SAMPLE, seed)
        refit = self._refit
        price = torch.full((len(values),), self.terms.kl_weight, device=values.device)
        stages = Stages(self.terms, sample, progress)
        stages.add("relaxed", relaxed, values)
        stages.add("hard", mask.float(), values)
        if self.refit:
            fitted = refit.fit(problem, mask.float(), values, seed=seed)
            values, price = fitted.values, fitted.price
            stages.add("refit", mask.float(), values)
        while True:
            most = sizes(mask, self.shared)
            # Some units cost much KL at whatever value they are held: where no refit kept the bound, one of them goes.
            dear = [
                bool(self.refit) and broken and n <= budget
                for n, broken in zip(most, stages.broken, strict=True)
            ]
            allowed = [max(1, n - 1) if out else budget for n, out in zip(most, dear, strict=True)]
            if all(n <= few for n, few in zip(most, allowed, strict=True)):
                break
            price[dear] = _DEAR
            mask = thin(sample, self.terms, price, mask, values, allowed, shared=self.shared)
            if self.refit:
                fitted = replace(refit, updates=self.refit // 2).fit(problem, mask.float(), values, seed=seed)
                values, price = fitted.values, fitted.price
            stages.add("thinned", mask.float(), values)
        if self.prune >= 0:
            mask = prune(sample, mask, values, self.prune, shared=self.shared)
        if self.exchange:
            ends = self._exchanger.improve(problem, mask, values, seed)
            mask, values = torch.stack([end.mask for end in ends]), torch.stack([end.values for end in ends])
            stages.add("exchanged", mask.float(), values)
        if self.refit:
            values = refit.fit(problem, mask.float(), values, seed=seed).values
        stages.add("final", mask.float(), values)
        return Discovery(interventions_of(problem, mask, values), tuple(stages.score), stages.by_run())

    def nodes(self, problem: Problem, runs: int, units: int, budget: int) -> int:
        """About how many node evaluations it takes from so many units to the budget, if pruning finds nothing."""
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
