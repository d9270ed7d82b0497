"""The paper's rival: a mask of coin flips, learned by REINFORCE, which needs no gradient through the mask."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import logsigmoid

from pivotal.errors import PivotalError
from pivotal.problem.problem import Outcome, Problem
from pivotal.records.intervention import Intervention
from pivotal.searches.base import (
    Checkpoint,
    Discovery,
    Progress,
    carry_through,
    interventions_of,
    most_units,
    uniform,
)
from pivotal.searches.relaxed.hardening import FEWEST, Hardening
from pivotal.searches.selection import Selection
from pivotal.searches.tools.lagrangian import KLConstraint, Multiplier, shrinking
from pivotal.searches.tools.refit import bounds_of, update_nodes

_LARGEST = 1000.0
"""The most that a violation may press with: beside the noise of the estimator the pressure that suffices for a
relaxed mask would not be felt."""

_FEWEST_KL_NODES = 6
"""Positions at which KL is looked at for each drawn mask, however many are drawn."""


@dataclass(frozen=True)
class Reinforce(Selection):
    """Minimise E[loss] over masks m ~ Bernoulli(sigmoid(logits)) and values, subject to the expected number of units.

    The logits follow the score function, E[(loss - c) * d log p(m) / d logits], where c, the control variate, is a
    moving average of the loss; the values follow the ordinary gradient through the drawn masks. What comes after, from
    the likeliest units to the intervention, is what the learned mask does too."""

    name: ClassVar[str] = "reinforce"
    summary: ClassVar[str] = (
        "the paper's rival: masks drawn at random, learned by the score function (REINFORCE)"
    )
    presets: ClassVar[dict[str, dict[str, object]]] = {
        # What the paper says of it: the ratio, the full KL term, the wanted number of units as the target from the
        # start, one mask per update, mask and values as they come out. Of its rates it says nothing: these are slow,
        # and damped, since a multiplier that overshoots switches all coins to tails, and nothing brings them back.
        "paper": {
            "objective": "ratio",
            "kl_weight": 1.0,
            "samples": 1,
            "anneal": 0.0,
            "spare": 1.0,
            "mask_rate": 0.02,
            "multiplier_rate": 0.005,
            "updates": 6000,
            "refit": 0,
            "prune": -1.0,
        }
    }

    refit: int = 60
    """Updates of the values alone on a hard mask; 0 keeps the values as learned."""
    updates: int = 400
    """Gradient steps on the probabilities of the units and on the values."""
    samples: int = 4
    """Masks drawn per update and run."""
    memory: float = 0.9
    """Share of the control variate, a moving average of the loss, that an update keeps."""
    anneal: float = 0.65
    """Share of the updates over which the allowed number of units shrinks from half of all to its target; 0: none."""
    spare: float = 3.0
    """How many times max_units may be likely; thinning takes the surplus away again, with refits."""
    mask_rate: float = 0.1
    """Learning rate of the mask logits."""
    value_rate: float = 0.05
    """Learning rate of the values."""
    multiplier_rate: float = 0.02
    """Learning rate of the multipliers."""
    damping: float = 50.0
    """How strongly a violation acts at once, beside what its multiplier has summed up."""
    prune: float = 0.002
    """A unit is let go if that costs no more than this share of the flips on training pairs; negative keeps all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for names, rule, holds in (
            (("updates", "samples"), "at least one", lambda x: x >= 1),
            (("memory",), "0 or more and below 1", lambda x: 0 <= x < 1),
            (("anneal",), "between 0 and 1", lambda x: 0 <= x <= 1),
            (("spare",), "1 or more and finite: it multiplies max_units", lambda x: 1 <= x < math.inf),
            (
                ("mask_rate", "value_rate", "multiplier_rate"),
                "above 0 and finite",
                lambda x: 0 < x < math.inf,
            ),
            (("damping",), "0 or more and finite", lambda x: 0 <= x < math.inf),
            (("prune",), "a share of the flips, below 1", lambda x: x < 1),
        ):
            for name in names:
                if not holds(getattr(self, name)):
                    raise PivotalError(f"{name} must be {rule}, but it is {getattr(self, name):g}.", name)

    def _solve(
        self,
        problem: Problem,
        *,
        runs: int,
        seed: int,
        progress: Callable[[Progress], None] | None,
        checkpoint: Checkpoint | None,
    ) -> Discovery:
        self.check(problem, runs, seed)
        learner = _Learner(self, problem, self._pool(problem), runs, seed)
        carry_through(learner, progress, checkpoint)
        logits, values = learner.logits.detach(), learner.values.detach()
        return self._hardening.run(
            problem,
            logits.sigmoid()[:, None].expand(-1, len(problem.labels), -1),
            likeliest(logits, learner.budget)[:, None].expand(-1, len(problem.labels), -1),
            values,
            most_units(self.max_units, problem),
            seed=seed,
            progress=progress,
        )

    def within(self, problem: Problem, runs: int, nodes: int) -> Reinforce:
        """The number of updates is what gives: whatever hardening takes is taken off first."""
        budget = most_units(self.max_units, problem)
        left = nodes - self._hardening.nodes(problem, runs, self._pool(problem), budget)
        each = runs * self.samples * update_nodes(problem, self.batch)
        return replace(self, updates=max(FEWEST, int(left / each)))

    def _pool(self, problem: Problem) -> int:
        units = len(problem.space)
        return min(units, round(self.spare * most_units(self.max_units, problem)))

    @property
    def _hardening(self) -> Hardening:
        return Hardening(self.terms, self.refit, self.prune, self.batch, shared=True)


@dataclass(frozen=True)
class _Seen:
    """What an update has seen on the way to its gradients."""

    outcome: Outcome
    loss: Float[Tensor, "runs samples"]
    expected: Float[Tensor, " runs"]
    """Units, and `excess`: of them over those allowed now, as a logarithm."""
    excess: Float[Tensor, " runs"]
    kl: Float[Tensor, " runs"] | None
    cost: Float[Tensor, "runs samples"]
    """The loss, and KL at its price."""


class _Learner:
    """The state of the search, all runs at once; every run draws `samples` masks, and all of them are one batch."""

    def __init__(self, search: Reinforce, problem: Problem, budget: int, runs: int, seed: int) -> None:
        self.search, self.problem, self.budget = search, problem, budget
        device, units, directions = problem.model.device, len(problem.space), len(problem.labels)
        self.generators = [torch.Generator().manual_seed(seed + run) for run in range(runs)]
        self.kl_noise = torch.Generator().manual_seed(seed)
        # Half of the units at first: nothing is known, and no coin says more than a fair one.
        self.logits = torch.zeros(runs, units, device=device, requires_grad=True)
        noise = uniform(self.generators, (directions, problem.space.coordinates), device)
        self.values = (0.1 * (noise - 0.5)).requires_grad_()
        self.optimiser = torch.optim.Adam(
            [
                {"params": [self.logits], "lr": search.mask_rate},
                {"params": [self.values], "lr": search.value_rate},
            ],
            betas=(0.9, 0.99),
        )
        rate, damping = search.multiplier_rate, search.damping
        self.multiplier = Multiplier(runs, rate, damping=damping, largest=_LARGEST, device=device)
        self.kl_constraint = None
        if search.max_kl is not None:
            self.kl_constraint = KLConstraint(runs, search.max_kl, 0.01, 1.25, device)
        self.control: Float[Tensor, " runs"] = torch.zeros(runs, device=device)
        self.batches = problem.batches(search.batch, seed)
        self.low, self.high = bounds_of(problem)
        self.update = 0

    def run(self, progress: Callable[[Progress], None] | None, checkpoint: Checkpoint | None) -> None:
        updates = self.search.updates
        every = max(1, updates // 60)
        while self.update < updates:
            told = self.update % every == 0 or self.update == updates - 1
            row = self.step(told)
            if row is not None and progress is not None:
                progress(row)
            if checkpoint is not None and checkpoint.due():
                checkpoint.save(self.state())

    def target(self) -> float:
        """The number of units allowed now: from the half that it starts with to the budget, or the budget at once."""
        search = self.search
        share = self.update / (search.anneal * search.updates) if search.anneal else 1.0
        return shrinking(max(self.budget, len(self.problem.space) / 2), self.budget, share)

    def step(self, told: bool) -> Progress | None:
        search, target = self.search, self.target()
        runs, units = self.logits.shape
        slack = max(1.0, target / self.budget)
        batch = self.batches[self.update % len(self.batches)]
        noise = uniform(self.generators, (search.samples, units), self.logits.device)
        masks = (noise < self.logits.detach().sigmoid()[:, None]).float()
        # As many rows of the vocabulary-wide softmax for a run as the learned mask has.
        nodes = max(_FEWEST_KL_NODES, search.terms.kl_nodes // search.samples)
        drawn = search.terms.draw(batch, self.kl_noise, nodes)
        seen = self.problem.as_memory_allows(partial(self._descend, batch, masks, drawn, target, slack))
        if told:  # not at every update: to look makes a GPU wait
            self._check_finite(seen.cost)
        self.optimiser.step()
        with torch.no_grad():
            torch.clamp(self.values, self.low, self.high, out=self.values)
            self.multiplier.ascend(seen.excess)
            if self.kl_constraint is not None and seen.kl is not None:
                self.kl_constraint.ascend(seen.kl, slack)
            self._follow(seen.cost)
        self.update += 1
        if not told:
            return None
        extra = {"multiplier": self.multiplier.value.tolist(), "target": [target] * runs}
        if seen.kl is not None:
            extra["kl"] = seen.kl.tolist()
        accuracy = seen.outcome.flipped().float().mean(1).view(runs, -1).mean(1).tolist()
        loss, expected = seen.loss.mean(1).tolist(), seen.expected.tolist()
        return Progress("learn", self.update, search.updates, loss, expected, accuracy, extra)

    def _descend(
        self,
        batch: Problem,
        masks: Float[Tensor, "runs samples units"],
        drawn: Int[Tensor, " nodes"] | None,
        target: float,
        slack: float,
    ) -> _Seen:
        """Gradients by logits and values, and nothing else is changed: it may have to be begun again."""
        search, shape = self.search, masks.shape[:2]
        self.optimiser.zero_grad()
        outcome = batch.run(masks.flatten(0, 1), self.values.repeat_interleave(search.samples, 0))
        cost = loss = search.terms.loss(outcome).view(shape)
        expected = self.logits.sigmoid().sum(-1)
        excess = (expected / target).log()
        mean = None
        if drawn is not None:
            kl = search.terms.kl(batch, outcome, drawn).view(shape)
            mean = kl.mean(1)
            cost = cost + search.kl_weight * kl
            if self.kl_constraint is not None:
                term = self.kl_constraint.term(mean, slack)
                (slope,) = torch.autograd.grad(term.sum(), mean)  # a drawn mask pays for its KL at this rate
                cost = cost + slope[:, None] * kl
        total = self.multiplier.term(excess) + cost.mean(1) + self._score_function(masks, cost.detach())
        total.sum().backward()
        return _Seen(outcome, loss, expected, excess, mean, cost.detach())

    def _score_function(
        self, masks: Float[Tensor, "runs samples units"], cost: Float[Tensor, "runs samples"]
    ) -> Float[Tensor, " runs"]:
        """A term whose gradient by the logits is the estimate: E[(cost - control) * d log p(m)]."""
        logits = self.logits[:, None]
        log_p = (masks * logsigmoid(logits) + (1 - masks) * logsigmoid(-logits)).sum(-1)
        return ((cost - self._control(cost)[:, None]) * log_p).mean(1)

    def _control(self, cost: Float[Tensor, "runs samples"]) -> Float[Tensor, " runs"]:
        """What a mask's cost is compared with: the mean of past ones, at first of those that were just drawn."""
        return self.control if self.update else cost.mean(1)

    def _follow(self, cost: Float[Tensor, "runs samples"]) -> None:
        control = self._control(cost)
        self.control = control + (1 - self.search.memory) * (cost.mean(1) - control)

    def _check_finite(self, cost: Float[Tensor, "runs samples"]) -> None:
        broken = (~cost.isfinite()).any(1)
        if bool(broken.any()):
            raise PivotalError(
                f"The loss must be a finite number, but by update {self.update + 1} it was not in run "
                f"{int(broken.nonzero()[0, 0])}. Lower mask_rate and value_rate, or check the model's weights."
            )

    def reached(self) -> tuple[Intervention, ...]:
        allowed = most_units(self.search.max_units, self.problem)
        mask = likeliest(self.logits.detach(), allowed)
        both = mask[:, None].expand(-1, len(self.problem.labels), -1)
        return interventions_of(self.problem, both, self.values)

    def state(self) -> dict[str, Any]:
        return {
            "update": self.update,
            "logits": self.logits.detach(),
            "values": self.values.detach(),
            "optimiser": self.optimiser.state_dict(),
            "control": self.control,
            "multiplier": self.multiplier.value,
            "kl_constraint": self.kl_constraint.state() if self.kl_constraint else None,
            "noise": [g.get_state() for g in (*self.generators, self.kl_noise)],
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.update = state["update"]
        with torch.no_grad():
            self.logits.copy_(state["logits"])
            self.values.copy_(state["values"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.control = state["control"].to(self.logits.device)
        self.multiplier.value = state["multiplier"].to(self.logits.device)
        if self.kl_constraint is not None:
            self.kl_constraint.restore(state["kl_constraint"])
        for generator, saved in zip((*self.generators, self.kl_noise), state["noise"], strict=True):
            generator.set_state(saved.cpu())


def likeliest(logits: Float[Tensor, "runs units"], budget: int) -> Bool[Tensor, "runs units"]:
    """The units of the highest probability. Coins that have not settled keep below one half, so that the paper's rule,
    on where the expected mask exceeds one half, would often leave none."""
    return torch.zeros_like(logits, dtype=torch.bool).scatter_(-1, logits.topk(budget).indices, True)
