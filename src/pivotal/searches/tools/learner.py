"""The relaxed loop: gradient descent on mask logits and values, ascent on the multipliers of the constraints."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.models.edits import touched
from pivotal.options import check_least
from pivotal.problem.batch import Batch
from pivotal.problem.objective import Terms
from pivotal.problem.passes import Passes
from pivotal.problem.problem import Problem
from pivotal.searches.base import Attempt, Progress, budget_of, interventions_of, most_units, require
from pivotal.searches.choose_then_fit import Selection
from pivotal.searches.masks import Estimator, MaskFamily, uniform
from pivotal.searches.tools import HardMasks, Prices, RunValues
from pivotal.searches.tools.lagrangian import (
    Adam,
    Bounds,
    Multiplier,
    drop_infinite,
    set_gradients,
    shrinking,
)
from pivotal.searches.tools.trials import alone, first_order, grid_of


@dataclass(frozen=True)
class RelaxedSettings(Selection):
    """The settings of the relaxed loop and of the hardening."""

    refit: int = 60
    """Updates of the values with a fixed hard mask, half as many between removals. 0 keeps the learned values."""
    updates: int = 160
    """Gradient steps on mask logits and values."""
    anneal: float = 0.65
    """Share of the updates in which the allowed number of units shrinks to its target. 0 starts at the target."""
    spare: float = 3.0
    """The relaxed mask may have this many times max_units. Thinning then removes the surplus, with refits."""
    mask_rate: float = 0.1
    """Learning rate of the mask logits."""
    value_rate: float = 0.05
    """Learning rate of the values."""
    multiplier_rate: float = 0.02
    """Learning rate of the multipliers."""
    damping: float = 5.0
    """Weight of the current violation, in addition to its multiplier, which sums up past violations."""
    prune: float = 0.002
    """Remove a unit if that loses at most this share of the flips on training pairs. Negative keeps all units."""

    def __post_init__(self) -> None:
        super().__post_init__()
        rates = ("mask_rate", "value_rate", "multiplier_rate")
        require(self, "above 0 and finite", lambda x: 0 < x < math.inf, *rates)
        require(self, "0 or more and finite", lambda x: 0 <= x < math.inf, "damping")
        check_least(self, updates=1)
        require(self, "between 0 and 1", lambda x: 0 <= x <= 1, "anneal")
        require(self, "1 or more and finite: it multiplies max_units", lambda x: 1 <= x < math.inf, "spare")
        require(self, "a share of the flips, below 1", lambda x: x < 1, "prune")

    @property
    @abstractmethod
    def family(self) -> MaskFamily:
        """The distribution that masks are drawn from."""

    def estimator(self) -> Estimator:
        """A new estimator of the gradient by the mask logits."""
        return self.family.estimator()

    @property
    def bound_rates(self) -> tuple[float, float]:
        """Rate and damping of the multipliers of the bounds on KL and on changes."""
        return self.multiplier_rate / 2, self.damping / 4


_PROBED = 128
"""Number of distinct prefixes on which the initial units are chosen."""
_OFF = -20.0
"""A logit that switches a unit off for good: the mask and its gradient are zero for any noise."""
_FEWEST_KL_NODES = 6
"""Minimum number of positions at which KL is measured for each drawn mask."""
_TINY = 1e-12
"""A lower bound on the expected number of fractional entries, so that its logarithm is finite."""


def filled(
    problem: Problem, terms: Terms, mask: HardMasks, values: RunValues, budget: int, seed: int
) -> HardMasks:
    """The masks with as many units as allowed. The units with the highest first-order gain beside the others are added.

    Inside a narrow range the expected number of units often falls below the budget before the values are learned. With
    questions that must stay, the gain includes less change of them.
    """
    price = torch.cat([terms.weights(problem)[:1], terms.first_price(problem)[1:]]).expand(len(mask), -1)
    gain = first_order(problem.sample(_PROBED, seed), terms, price, mask, values, grid_of(problem, points=3))
    mask = mask.clone()
    for run, more in enumerate(gain):
        room = budget - int(mask[run].any(0).sum())
        if room > 0:
            mask[run][:, more.topk(room).indices] = True
    return mask


@dataclass(frozen=True)
class _Given:
    """What one update needs besides its batch."""

    noise: Float[Tensor, "runs samples masks units"]
    target: float | Float[Tensor, ""]
    """The number of units allowed."""
    slack: float | Float[Tensor, ""]
    """The factor by which bounds are raised while masks are large."""
    update: int | Int[Tensor, ""]


@dataclass(frozen=True)
class _Seen:
    """The quantities that one update measured."""

    flipped: Float[Tensor, " runs"]
    """The share of flips."""
    loss: Float[Tensor, "runs samples"]
    cost: Float[Tensor, "runs samples"]
    """The loss plus the bounded costs times their prices."""
    units: Float[Tensor, " runs"]
    excess: Float[Tensor, " runs"]
    """log(expected units / allowed units)."""
    beyond: Float[Tensor, " runs"] | None
    """log(expected fractional entries / allowed fractional entries)."""
    costs: Prices
    total: Float[Tensor, " runs"]


class Learner:
    """The state of the relaxed loop for all runs.

    Minimise E[loss] over masks and values with a bound on the expected number of units. Bounds on the expected number
    of mask entries inside (0, 1) and on KL are optional. The mask family draws the masks, and its estimator provides
    the gradient by the logits. Values are learned on the standardised scale of `problem.standard()`.
    """

    def __init__(
        self,
        search: RelaxedSettings,
        problem: Problem,
        budget: int,
        runs: int,
        seed: int,
        *,
        per_direction: bool = False,
        pool: int = 0,
        max_fractional: int | float | None = None,
    ) -> None:
        """`budget` is the final number of units of the relaxed mask. `pool` is the number of units at the start in a
        larger space; 0 starts with all units."""
        self.search, self.problem, self.budget = search, problem, budget
        self.family, self.estimator = search.family, search.estimator()
        device, units, directions = problem.model.device, len(problem.space), len(problem.labels)
        self.generators = [torch.Generator().manual_seed(seed + run) for run in range(runs)]
        self.kl_noise = torch.Generator().manual_seed(seed)
        shape = (directions if per_direction else 1, units)
        self.logits = self.estimator.first_logits(self.generators, shape, device).requires_grad_()
        noise = uniform(self.generators, (directions, problem.space.coordinates), device)
        self.standard = problem.standard()
        self.standardised = 0.1 * (noise - 0.5)
        self.pool = units
        if 0 < pool < units:
            self.pool = max(pool, budget)
            self._begin_with_likeliest(seed)
        self.standardised.requires_grad_()
        self.optimiser = Adam([(self.logits, search.mask_rate), (self.standardised, search.value_rate)])
        rate, damping = search.multiplier_rate, search.damping
        largest = self.estimator.largest
        self.units_multiplier = Multiplier(runs, rate, damping=damping, largest=largest, device=device)
        self.fraction_multiplier = Multiplier(runs, rate, damping=damping, device=device)
        self.fractional = None
        if max_fractional is not None:
            self.fractional = budget_of(max_fractional, units, "max_fractional")
        self.bounds = Bounds(runs, search.terms.bounds(problem), *search.bound_rates)
        self.low, self.high = (self.standard.standardised(bound) for bound in problem.bounds())
        self.update = 0
        self.broken = torch.full((runs,), -1, device=device)
        """For each run, the first update whose loss was not finite, or -1."""
        self.sites = problem.space.sites
        """The sites of the units that are not switched off for good."""
        if self.family.zeros_stay:
            self.sites = touched(problem.space, (self.logits.detach() > _OFF).float())
        self.passes: Passes[_Given, _Seen] = Passes(
            problem, search.batch, seed, runs * self.estimator.samples, search.updates
        )

    def _begin_with_likeliest(self, seed: int) -> None:
        """Switch off all units but those with the highest first-order gain, and start each value at its mean under the
        target label. In a large space, the effect of all units at their means says little about that of a few."""
        gain, _ = alone(self.problem.sample(_PROBED, seed), self.search.terms)
        with torch.no_grad():
            out = torch.ones_like(self.logits, dtype=torch.bool)
            out[..., gain.topk(self.pool).indices] = False
            self.logits[out] = _OFF
            self.standardised += self.standard.standardised(self.problem.measure_activations().target)

    @property
    def values(self) -> RunValues:
        return self.standard.values(self.standardised)

    def run(self, attempt: Attempt) -> None:
        """Do all updates. Resume from the checkpoint if it has a state."""
        if (state := attempt.load()) is not None:
            self.restore(state)
        updates = self.search.updates
        every = max(1, updates // 60)
        while self.update < updates:
            told = self.update % every == 0 or self.update == updates - 1
            row = self.step(told)
            if row is not None:
                self.check_finite()
                attempt.report(row)
            attempt.between_steps(self.state)
        if attempt.checkpoint is not None:
            attempt.checkpoint.save(self.state())

    def target(self) -> float:
        """The number of units allowed in this update. It shrinks by a constant factor per update to the budget."""
        search = self.search
        share = self.update / (search.anneal * search.updates) if search.anneal else 1.0
        return shrinking(max(self.budget, self.estimator.start * self.pool), self.budget, share)

    def step(self, told: bool) -> Progress | None:
        """Do one update. Return its progress only if `told`, because reading the numbers makes a GPU wait."""
        search, target, samples = self.search, self.target(), self.estimator.samples
        slack = max(1.0, target / self.budget)
        number = self.update % len(self.passes.batches)
        noise = uniform(self.generators, (samples, *self.logits.shape[1:]), self.logits.device)
        # Fewer positions per mask keep the cost of the vocabulary-wide softmax per run constant.
        nodes = max(_FEWEST_KL_NODES, search.terms.kl_nodes // samples)
        drawn = search.terms.draw(self.passes.batches[number], self.kl_noise, nodes)
        given = _Given(noise, target, slack, self.update)
        seen = self.passes(number, drawn, given, self._differentiate, self._follow)
        self.update += 1
        if not told:
            return None
        loss = seen.loss.mean(1).tolist()
        extra = {"multiplier": self.units_multiplier.value.tolist(), "target": [target] * len(loss)}
        if search.terms.wants_kl:
            extra["kl"] = seen.costs[:, 0].tolist()
        told_units, accuracy = seen.units.tolist(), seen.flipped.tolist()
        return Progress("learn", self.update, search.updates, loss, told_units, accuracy, extra)

    def _differentiate(self, batch: Batch, drawn: Int[Tensor, " nodes"] | None, given: _Given) -> _Seen:
        """Compute the gradients by logits and values. Change no other state, so that it can be repeated in smaller
        chunks if memory runs out."""
        search, family, noise, shape = self.search, self.family, given.noise, given.noise.shape[:2]
        masks = family.sample(self.logits[:, None].expand_as(noise), noise)
        outcome = batch.run(
            masks.flatten(0, 1).expand(-1, len(self.problem.labels), -1),
            self.values.repeat_interleave(shape[1], 0),
            zeros_stay=family.zeros_stay,
            sites=self.sites if self.passes.fixed else None,
        )
        cost = loss = search.terms.loss(outcome, drawn).view(shape)
        units = family.nonzero(self.logits).sum(-1).mean(-1)  # with a mask per direction: the mean of the two
        excess = (units / given.target).log()
        total = self.units_multiplier.term(excess)
        beyond = None
        if self.fractional is not None:
            inside = family.fractional(self.logits).sum(-1).mean(-1).clamp(min=_TINY)
            beyond = (inside / (self.fractional * given.slack)).log()
            total = total + self.fraction_multiplier.term(beyond)
        costs = search.terms.costs(batch, outcome, drawn).unflatten(0, shape)
        mean = costs.detach().mean(1)
        price = search.terms.weights(batch) + self.bounds.price_at(mean, given.slack)
        cost = cost + (price[:, None] * costs).sum(-1)
        total = total + self.estimator.term(family, self.logits, masks, cost)
        set_gradients(total, (self.logits, self.standardised))
        return _Seen(
            outcome.flips().view(shape).mean(1),
            loss.detach(),
            cost.detach(),
            units.detach(),
            excess.detach(),
            None if beyond is None else beyond.detach(),
            mean,
            total.detach(),
        )

    @torch.no_grad()
    def _follow(self, given: _Given, seen: _Seen) -> None:
        """Update the parameters and the multipliers, in place."""
        drop_infinite((self.logits, self.standardised))
        self.optimiser.step()
        torch.clamp(self.standardised, self.low, self.high, out=self.standardised)
        self.units_multiplier.ascend(seen.excess)
        if seen.beyond is not None:
            self.fraction_multiplier.ascend(seen.beyond)
        self.bounds.ascend(seen.costs, given.slack)
        self.estimator.follow(seen.cost)
        new = ~seen.total.isfinite() & (self.broken < 0)
        self.broken.copy_(torch.where(new, given.update, self.broken))

    def check_finite(self) -> None:
        broken = self.broken.tolist()
        runs = [run for run, update in enumerate(broken) if update >= 0]
        if runs:
            more = f" (and of {len(runs) - 1} more)" if len(runs) > 1 else ""
            raise PivotalError(
                f"The loss must be a finite number, but it was not at update {broken[runs[0]] + 1} of run "
                f"{runs[0]}{more}. Lower mask_rate and value_rate, or check the model's weights."
            )

    def hard(self, budget: int) -> HardMasks:
        """The learned units of each run and direction: at most `budget`."""
        mask = self.estimator.hard(self.family, self.logits.detach(), budget)
        return mask.expand(-1, len(self.problem.labels), -1)

    def state(self) -> dict[str, Any]:
        """The state for `restore`, and the interventions of the current logits and values."""
        allowed = most_units(self.search.max_units, self.problem)
        return {
            "interventions": interventions_of(self.problem, self.hard(allowed), self.values),
            "update": self.update,
            "logits": self.logits.detach(),
            "values": self.standardised.detach(),
            "optimiser": self.optimiser.state(),
            "units_multiplier": self.units_multiplier.value,
            "fraction_multiplier": self.fraction_multiplier.value,
            "bounds": self.bounds.state(),
            "estimator": self.estimator.state(),
            "noise": [g.get_state() for g in (*self.generators, self.kl_noise)],
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.update, device = state["update"], self.logits.device
        with torch.no_grad():
            self.logits.copy_(state["logits"])
            self.standardised.copy_(state["values"])
        self.optimiser.restore(state["optimiser"])
        self.units_multiplier.value = state["units_multiplier"].to(device, copy=True)
        self.fraction_multiplier.value = state["fraction_multiplier"].to(device, copy=True)
        self.bounds.restore(state["bounds"])
        self.estimator.restore(state["estimator"], device)
        for generator, saved in zip((*self.generators, self.kl_noise), state["noise"], strict=True):
            generator.set_state(saved.cpu())
