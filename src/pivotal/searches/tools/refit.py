"""Fit the values of fixed masks, for many masks at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.models.edits import spread, touched
from pivotal.problem.batch import Batch
from pivotal.problem.objective import AT_BOUND, Terms
from pivotal.problem.passes import Passes
from pivotal.problem.problem import Problem
from pivotal.searches.tools import HardMasks, Prices, RunValues, SoftMasks
from pivotal.searches.tools.lagrangian import Adam, Bounds, drop_infinite, set_gradients

_AIM = 0.7
"""The part of the bound on a change that the fit aims at. A batch has few sentences of each question, so the change
oscillates, and only values that keep every bound count."""
_SLOWER = 0.4
"""The part of the rate that is used with bounds on changes. Many units that make up for each other need small steps."""
_LAST = 0.1
"""The part of the rate that is left at the end."""
RATE = 0.1
"""The rate of a short fit. Its updates are few, so its steps are large."""
FITTED = 512
"""Number of distinct prefixes of a short fit, because each new batch must be prepared."""
_SHARES = (0.8, 0.6, 0.45, 0.3, 0.2, 0.1)
_STEPS = (0.5, 0.25, 0.125, 0.06, 0.03, 0.0)

Proposed: TypeAlias = tuple[HardMasks, RunValues]
"""Masks of sets, and the values to start from."""


@dataclass(frozen=True)
class Fitted:
    """Sets of units with fitted values, one per run."""

    mask: HardMasks
    values: RunValues
    price: Prices
    """The prices of KL and the other bounded costs at the end, in units of the loss. Searches use them to compare
    units."""
    score: Float[Tensor, " runs"]
    """The score on a sample of the training pairs; lower is better. Runs that exceed a bound rank last."""

    def part(self, runs: Any) -> Fitted:
        """The results of some runs."""
        return Fitted(self.mask[runs], self.values[runs], self.price[runs], self.score[runs])

    def state(self) -> dict[str, Tensor]:
        """The tensors, for a checkpoint."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    @staticmethod
    def restored(state: dict[str, Any], device: torch.device) -> Fitted:
        return Fitted(**{part.name: state[part.name].to(device) for part in fields(Fitted)})


@dataclass(frozen=True)
class _Given:
    """What one update needs besides its batch."""

    rate: float | Float[Tensor, ""]


@dataclass(frozen=True)
class Refit:
    """Adam on the values of the masked units, clamped to the bounds of their sites."""

    terms: Terms = field(default_factory=Terms)
    updates: int = 60
    rate: float = 0.05
    batch: int = 128
    looks: int = 10
    """How often the values are scored on a fixed sample. The fit returns the best scored values."""
    positions: int = 0
    """Number of positions drawn to measure the KL of a score; 0 takes all. A bound on KL needs all."""
    tolerance: float = 0.0
    """Stop after a score that lowers the best one by less than this share in every run. 0 does all updates."""
    priced: bool = False
    """Start with bounded costs at their first price, and at the end scale the values down to the bound. Few updates
    then suffice."""

    @property
    def _every(self) -> int:
        """Number of updates between two scores."""
        return max(1, self.updates // self.looks)

    def fit(
        self, problem: Problem, mask: SoftMasks, values: RunValues | None = None, *, seed: int = 0
    ) -> Fitted:
        """Fit the values of each mask. Without `values` they start at the units' means (zero in bounded sites)."""
        if problem.values == "interchange":
            return self._given(problem, mask, seed)
        standard = problem.standard()
        low, high = (standard.standardised(bound) for bound in problem.bounds())
        best = _Best(self.terms, problem.sample(2 * self.batch, seed), mask, self.positions)
        on = spread(problem.space, mask)
        x = torch.zeros_like(on)
        if values is not None:
            values = values.detach().clamp(*problem.bounds())
            best.look(values)
            if self.terms.max_kl is not None and not self.priced:
                values = self._gentler(problem, best, values)
            x = standard.standardised(values)
        x = (x * on).requires_grad_()
        rate = self.rate if self.terms.max_change is None else _SLOWER * self.rate
        optimiser = Adam([(x, rate)])
        most = self.terms.bounds(problem)
        most[1:] *= _AIM
        bounds = Bounds(len(mask), most, 0.05, 0.5, AT_BOUND if self.priced else 0.0)
        noise = torch.Generator().manual_seed(seed)

        def down(batch: Batch, drawn: Int[Tensor, " nodes"] | None, given: _Given) -> Prices:
            """Compute the gradients by the values. Return what is bounded."""
            outcome = batch.run(mask, standard.values(x), sites=best.sites)
            costs = self.terms.costs(batch, outcome, drawn)
            loss = self.terms.loss(outcome, drawn) + self.terms.kl_weight * costs[:, 0]
            set_gradients(loss + bounds.term(costs).sum(1), [x])
            return costs.detach()

        @torch.no_grad()
        def follow(given: _Given, costs: Prices) -> None:
            bounds.ascend(costs)
            drop_infinite([x])
            optimiser.rates[0] = given.rate
            optimiser.step()
            torch.clamp(x, low, high, out=x)

        passes: Passes[_Given, Tensor] = Passes(problem, self.batch, seed, len(mask), self.updates)
        for update in range(1, self.updates + 1):
            # Rates fall evenly towards a tenth. Values then converge to a bound instead of oscillating around it.
            now = rate * (1 + (_LAST - 1) * (update - 1) / self.updates)
            number = update % len(passes.batches)
            drawn = self.terms.draw(passes.batches[number], noise)
            passes(number, drawn, _Given(now), down, follow)
            if update % self._every == 0 or update == self.updates:
                before = best.score
                best.look(standard.values(x))
                if self.tolerance and bool((best.score > before - self.tolerance * before.abs()).all()):
                    break
        if self.terms.bounded:
            (self._scaled if self.priced else self._gentler)(problem, best, standard.values(x.detach()))
        best.check()
        return Fitted(mask.bool(), best.values, bounds.price + self.terms.weights(problem), best.score)

    def _given(self, problem: Problem, mask: SoftMasks, seed: int) -> Fitted:
        """The result where there is nothing to fit, because the counterfactual prefixes give the values."""
        best = _Best(self.terms, problem.sample(2 * self.batch, seed), mask)
        best.look(problem.counterfactual_means.expand(len(mask), -1, -1))
        best.check()
        price = self.terms.first_price(problem).repeat(len(mask), 1)
        return Fitted(mask.bool(), best.values, price, best.score)

    def fit_together(self, problem: Problem, proposed: Sequence[Proposed], *, seed: int) -> list[Fitted]:
        """Fit the values of several groups of sets in one fit. Return one result per group."""
        mask, values = (torch.cat(part) for part in zip(*proposed, strict=True))
        fitted = self.fit(problem, mask.float(), values, seed=seed)
        groups = torch.arange(len(mask)).split([len(own) for own, _ in proposed])
        return [fitted.part(group) for group in groups]

    @staticmethod
    def _gentler(problem: Problem, best: _Best, values: RunValues) -> RunValues:
        """Score values between the units' own means and the given values, and between their own means and the means
        under the target label. Little changes at the units' own means, so some of these values keep all bounds."""
        own, target = problem.measure_activations().own, problem.measure_activations().target
        for share in _SHARES:
            best.look(own + share * (values - own))
            best.look((own + share * (target - own)).expand_as(values))
        return best.values

    @staticmethod
    def _scaled(problem: Problem, best: _Best, values: RunValues) -> None:
        """Score values between the units' own means and the given values, ever nearer to the last that keep the
        bound."""
        own, share = problem.measure_activations().own, torch.ones_like(values[:, :1, :1])
        for step in _STEPS:
            kept = best.look(own + share * (values - own))[:, None, None]
            share = (share + torch.where(kept, step, -step)).clamp(max=1)


class _Best:
    """The best values of each run so far. Values that keep all bounds rank before values that exceed one."""

    def __init__(self, terms: Terms, sample: Problem, mask: SoftMasks, positions: int = 0) -> None:
        self._terms, self._sample, self._mask = terms, sample, mask
        self._drawn: Int[Tensor, " nodes"] | None = None
        if positions and terms.max_kl is None:
            # All values are scored at the same positions, so that only the values differ.
            self._drawn = terms.draw(sample, torch.Generator().manual_seed(0), positions)
        self.sites = touched(sample.space, mask)
        self._on = spread(sample.space, mask)
        self.values = torch.zeros_like(self._on)
        self.score = torch.full((len(mask),), torch.inf, device=mask.device)

    def check(self) -> None:
        if not bool(self.score.isfinite().all()):
            run = int((~self.score.isfinite()).nonzero()[0, 0])
            raise PivotalError(
                f"The loss must be finite, but it never was for the values of mask {run}. "
                "Lower value_rate, or check the model's weights."
            )

    @torch.no_grad()
    def look(self, values: RunValues) -> Bool[Tensor, " runs"]:
        """Score values, and tell which keep all bounds."""
        outcome = self._sample.run(self._mask, values, sites=self.sites)
        costs = self._terms.costs(self._sample, outcome, self._drawn)
        loss = self._terms.loss(outcome, self._drawn)
        score = self._terms.score(self._sample, loss, costs, few=True)
        better = score < self.score
        self.score = torch.where(better, score, self.score)
        self.values = torch.where(better[:, None, None], values.detach() * self._on, self.values)
        return self._terms.excess(self._sample, costs) <= 1
