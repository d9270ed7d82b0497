"""Learning the values of a fixed mask, for many masks at once."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.models.edits import spread
from pivotal.problem.objective import Terms
from pivotal.problem.problem import Problem
from pivotal.searches.tools.lagrangian import KLConstraint

_SHARES = (0.8, 0.6, 0.45, 0.3, 0.2, 0.1)


@dataclass(frozen=True)
class Fitted:
    values: Float[Tensor, "runs directions coordinates"]
    price: Float[Tensor, " runs"]
    """What a unit of KL cost at the end, in units of the loss: the exchange rate for whoever picks units."""
    score: Float[Tensor, " runs"]
    """Of the values, on a sample of the training pairs; less is better, and what breaks the KL bound comes last."""

    def part(self, runs: Any) -> Fitted:
        """Those of some runs."""
        return Fitted(self.values[runs], self.price[runs], self.score[runs])


@dataclass(frozen=True)
class Refit:
    """Adam on the values of the masked units, kept inside what the sites can reach."""

    terms: Terms = field(default_factory=Terms)
    updates: int = 60
    rate: float = 0.05
    batch: int = 128
    looks: int = 10
    """How often the values are scored on a fixed sample; the best of them are returned."""

    def nodes(self, problem: Problem, runs: int) -> int:
        """Node evaluations that a fit of so many masks takes, about."""
        look = problem.sample(2 * self.batch).tree.n_live
        looks = 1 + math.ceil(self.updates / self._every)
        looks += 0 if self.terms.max_kl is None else 4 * len(_SHARES)
        return round(runs * (self.updates * update_nodes(problem, self.batch) + looks * look))

    @property
    def _every(self) -> int:
        """Updates from one look to the next."""
        return max(1, self.updates // self.looks)

    def fit(
        self,
        problem: Problem,
        mask: Float[Tensor, "runs directions units"],
        values: Float[Tensor, "runs directions coordinates"] | None = None,
        *,
        seed: int = 0,
    ) -> Fitted:
        """Values for each mask; from the units' means (zero in bounded sites) unless there are some to start with."""
        standard = problem.standard()
        low, high = (standard.standardised(bound) for bound in bounds_of(problem))
        best = _Best(self.terms, problem.sample(2 * self.batch, seed), mask)
        on = spread(problem.space, mask)
        x = torch.zeros_like(on)
        if values is not None:
            best.look(values)
            if self.terms.max_kl is not None:
                values = self._gentler(problem, best, values)
            x = standard.standardised(values.detach())
        x = (x * on).requires_grad_()
        optimiser = torch.optim.Adam([x], lr=self.rate, betas=(0.9, 0.99))
        constraint = None
        if self.terms.max_kl is not None:
            constraint = KLConstraint(len(mask), self.terms.max_kl, 0.05, 0.5, mask.device)
        noise = torch.Generator().manual_seed(seed)
        batches = problem.batches(self.batch, seed)
        # A rate that shrinks lets the values settle on the bound instead of swinging about it.
        schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.1, total_iters=self.updates)

        def descend(batch: Problem, drawn: Int[Tensor, " nodes"] | None) -> Float[Tensor, " runs"] | None:
            """Gradients by the values; the KL that they were found with."""
            optimiser.zero_grad()
            outcome = batch.run(mask, standard.values(x))
            loss, kl = self.terms.loss(outcome), None
            if drawn is not None:
                kl = self.terms.kl(batch, outcome, drawn)
                loss = loss + self.terms.kl_weight * kl
                if constraint is not None:
                    loss = loss + constraint.term(kl)
            loss.sum().backward()
            return kl

        for update in range(1, self.updates + 1):
            batch = batches[update % len(batches)]
            drawn = self.terms.draw(batch, noise)
            kl = problem.as_memory_allows(partial(descend, batch, drawn))
            if constraint is not None and kl is not None:
                constraint.ascend(kl)
            optimiser.step()
            schedule.step()
            with torch.no_grad():
                torch.clamp(x, low, high, out=x)
            if update % self._every == 0 or update == self.updates:
                best.look(standard.values(x))
        if self.terms.max_kl is not None:
            self._gentler(problem, best, standard.values(x.detach()))
        best.check()
        price = torch.zeros(len(mask), device=mask.device) if constraint is None else constraint.price
        return Fitted(best.values, price + self.terms.kl_weight, best.score)

    @staticmethod
    def _gentler(
        problem: Problem, best: _Best, values: Float[Tensor, "runs directions coordinates"]
    ) -> Float[Tensor, "runs directions coordinates"]:
        """Between the values and what the units are by themselves KL goes down to nearly nothing: look on the way from
        there, and on the way to what they are where the model prefers the other label, so that a bound on KL can be
        kept wherever the values have got to."""
        own, target = problem.measure_activations().own, problem.measure_activations().target
        for share in _SHARES:
            best.look(own + share * (values - own))
            best.look((own + share * (target - own)).expand_as(values))
        return best.values


class _Best:
    """The best values so far of each run: those that keep the KL bound come before those that do not."""

    def __init__(self, terms: Terms, sample: Problem, mask: Float[Tensor, "runs directions units"]) -> None:
        self._terms, self._sample, self._mask = terms, sample, mask
        self._on = spread(sample.space, mask)
        self.values = torch.zeros_like(self._on)
        self.score = torch.full((len(mask),), torch.inf, device=mask.device)

    def check(self) -> None:
        if not bool(self.score.isfinite().all()):
            run = int((~self.score.isfinite()).nonzero()[0, 0])
            raise PivotalError(
                f"Values must lead to a finite loss, but those of mask {run} never did. "
                "Lower value_rate, or check the model's weights."
            )

    @torch.no_grad()
    def look(self, values: Float[Tensor, "runs directions coordinates"]) -> None:
        outcome = self._sample.run(self._mask, values)
        score = self._terms.loss(outcome)
        if self._terms.wants_kl:
            score = self._terms.score(score, self._sample.mean_kl(outcome.states))
        better = score < self.score
        self.score = torch.where(better, score, self.score)
        self.values = torch.where(better[:, None, None], values.detach() * self._on, self.values)


def update_nodes(problem: Problem, batch: int) -> float:
    """Node evaluations of one update of one run on average: a batch, forward and backward."""
    parts = problem.batches(batch)
    return 2 * sum(part.tree.n_live for part in parts) / len(parts)


def bounds_of(problem: Problem) -> tuple[Float[Tensor, " coordinates"], Float[Tensor, " coordinates"]]:
    low, high = problem.space.bounds()
    device = problem.model.device
    return torch.tensor(low, device=device), torch.tensor(high, device=device)
