"""The paper's search: learn a relaxed mask and its values together, then make the mask hard."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.models.edits import spread
from pivotal.problem.objective import Objective, Terms
from pivotal.problem.problem import Outcome, Problem
from pivotal.records.intervention import Intervention
from pivotal.searches.base import (
    Checkpoint,
    Discovery,
    Progress,
    Search,
    budget_of,
    carry_through,
    check_budget,
    check_runs,
    interventions_of,
    most_units,
    uniform,
)
from pivotal.searches.masks.hard_concrete import LOUIZOS, PAPER, HardConcrete
from pivotal.searches.relaxed.hardening import FEWEST, Hardening
from pivotal.searches.tools.lagrangian import KLConstraint, Multiplier, shrinking
from pivotal.searches.tools.refit import bounds_of, update_nodes
from pivotal.searches.tools.trials import first_order, grid_of

_PROBED = 128
"""Distinct prefixes that are enough to say which units to begin with."""

Masks = Literal["shared", "per-direction"]
Support = Literal["closed", "half-open"]


@dataclass(frozen=True)
class LearnedMask(Search):
    """Minimise E[loss] by mask logits and values, subject to the expected number of units (and, if asked, to the mass
    inside (0, 1) and to KL), by gradient descent on the parameters and ascent on the multipliers. Then take the units
    whose expected mask exceeds one half, learn their values anew, and let go of units that add nothing."""

    name: ClassVar[str] = "learned"
    summary: ClassVar[str] = (
        "the paper's: a relaxed mask and its values learned together under an L0 constraint"
    )
    presets: ClassVar[dict[str, dict[str, object]]] = {
        # The paper's own recipe: its ratio, its half-open mask, the full KL term, the wanted number of units as the
        # target from the start, multipliers without damping, mask and values as they come out. (A half-open mask has
        # no mass at 1: the paper's second constraint, on the mass inside (0, 1), then bounds the same quantity.)
        "paper": {
            "objective": "ratio",
            "support": "half-open",
            "kl_weight": 1.0,
            "max_fractional": 0.02,
            "anneal": 0.0,
            "spare": 1.0,
            "multiplier_rate": 0.1,
            "damping": 0.0,
            "updates": 800,
            "refit": 0,
            "prune": -1.0,
            "pool": 0,
        },
        "exchange": {"exchange": 6},
    }

    max_units: int | float | None = None
    """Most units: a number (1 or more), or a fraction of all units (below 1). Default: 4 at every step, 5 at a single
    step."""
    objective: Objective = "soft-margin"
    """`ratio` is the paper's p(d)/p(t); `soft-margin` grows linearly with the log ratio and is steadier."""
    margin: float = 1.0
    """How far beyond a tie the soft margin pushes, in nats."""
    max_kl: float | None = None
    """Bound on KL to the untouched model, averaged over all positions."""
    kl_weight: float = 0.1
    """Weight of KL as a term of the loss (the paper uses 1); 0 leaves it out."""
    masks: Masks = "shared"
    """One mask for both directions, or one each, of max_units each."""
    support: Support = "closed"
    """Hard Concrete with mass at 0 and 1 (Louizos et al.), or at 0 only (the paper's)."""
    max_fractional: int | float | None = None
    """Bound on the expected number of mask entries strictly inside (0, 1): a number of units, or a fraction."""
    updates: int = 160
    """Gradient steps on the relaxed mask."""
    anneal: float = 0.65
    """Share of the updates over which the allowed number of units shrinks from all to its target; 0: from the start."""
    spare: float = 3.0
    """How many times max_units the relaxed mask may have; thinning takes the surplus away again, with refits."""
    pool: int = 1500
    """In larger spaces the search begins with so many units, those of the highest first-order gain; 0: with all."""
    mask_rate: float = 0.1
    """Learning rate of the mask logits."""
    value_rate: float = 0.05
    """Learning rate of the values."""
    multiplier_rate: float = 0.02
    """Learning rate of the multipliers."""
    damping: float = 5.0
    """How strongly a violation acts at once, beside what its multiplier has summed up."""
    batch: int = 128
    """Distinct prefixes per update; 0 takes all of them every time."""
    refit: int = 60
    """Updates of the values alone on a hard mask; 0 keeps the values as learned."""
    prune: float = 0.002
    """A unit is let go if that costs no more than this share of the flips on training pairs; negative keeps all."""
    exchange: int = 0
    """At the end, swap one unit for another while that helps, at most so many times."""

    def __post_init__(self) -> None:
        check_budget(self.max_units)
        for name, allowed in (("objective", Objective), ("masks", Masks), ("support", Support)):
            if getattr(self, name) not in get_args(allowed):
                raise PivotalError(
                    f"{name} is {' or '.join(get_args(allowed))}, but it is {getattr(self, name)!r}.",
                    name,
                )
        self._require(
            "above 0 and finite", lambda x: 0 < x < math.inf, "mask_rate", "value_rate", "multiplier_rate"
        )
        self._require(
            "0 or more and finite", lambda x: 0 <= x < math.inf, "kl_weight", "damping", "margin", "batch"
        )
        self._require("0 or more", lambda x: x >= 0, "refit", "exchange", "pool")
        self._require("at least one", lambda x: x >= 1, "updates")
        self._require("between 0 and 1", lambda x: 0 <= x <= 1, "anneal")
        self._require("1 or more and finite: it multiplies max_units", lambda x: 1 <= x < math.inf, "spare")
        self._require("a share of the flips, below 1", lambda x: x < 1, "prune")
        self._require(
            "above 0; leave it out for no bound", lambda x: x is None or x > 0, "max_kl", "max_fractional"
        )
        if self.max_fractional is not None:
            check_budget(self.max_fractional, "max_fractional")

    def _require(self, rule: str, holds: Callable[[Any], bool], *names: str) -> None:
        for name in names:
            if not holds(getattr(self, name)):
                raise PivotalError(f"{name} must be {rule}, but it is {getattr(self, name):g}.", name)

    def check(self, problem: Problem, runs: int, seed: int) -> None:
        check_runs(runs, seed)
        most_units(self.max_units, problem)
        if self.max_fractional is not None:
            budget_of(self.max_fractional, len(problem.space), "max_fractional")

    @property
    def family(self) -> HardConcrete:
        """The distribution of a mask entry."""
        return LOUIZOS if self.support == "closed" else PAPER

    @property
    def terms(self) -> Terms:
        return Terms(self.objective, self.margin, self.kl_weight, self.max_kl)

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
        budget = most_units(self.max_units, problem)
        relaxation = _Relaxation(self, problem, self._pool(problem), runs, seed)
        carry_through(relaxation, progress, checkpoint)
        logits, values = relaxation.logits.detach(), relaxation.values.detach()
        return self._hardening.run(
            problem,
            self.family.mean(logits).expand(-1, len(problem.labels), -1),
            hard_mask(self.family, logits, relaxation.budget).expand(-1, len(problem.labels), -1),
            values,
            budget,
            seed=seed,
            progress=progress,
        )

    def within(self, problem: Problem, runs: int, nodes: int) -> LearnedMask:
        """The number of updates is what gives: whatever hardening takes is taken off first."""
        budget = most_units(self.max_units, problem)
        left = nodes - self._hardening.nodes(problem, runs, self._pool(problem), budget)
        return replace(self, updates=max(FEWEST, int(left / runs / update_nodes(problem, self.batch))))

    def _pool(self, problem: Problem) -> int:
        """The number of units that the relaxed mask may have."""
        units = len(problem.space)
        return min(units, round(self.spare * most_units(self.max_units, problem)))

    @property
    def _hardening(self) -> Hardening:
        shared = self.masks == "shared"
        return Hardening(self.terms, self.refit, self.prune, self.batch, shared, self.exchange)


_OFF = -20.0
"""A logit that no update can bring back: the mask is zero whatever the noise, and so is its gradient."""


def likeliest(
    problem: Problem, terms: Terms, pool: int, seed: int
) -> tuple[Int[Tensor, " pool"], Float[Tensor, "directions coordinates"]]:
    """The units that promise most if the loss were linear in the mask, and their values in sentences of each label."""
    sample = problem.sample(_PROBED, seed)
    nothing = torch.zeros(
        1, len(problem.labels), len(problem.space), dtype=torch.bool, device=problem.model.device
    )
    price = torch.full((1,), terms.kl_weight, device=nothing.device)
    values = spread(problem.space, nothing.float())
    gain = first_order(sample, terms, price, nothing, values, grid_of(problem, points=3))
    return gain[0].topk(pool).indices, problem.activations.target


@dataclass(frozen=True)
class _Seen:
    """What an update has seen on the way to its gradients."""

    outcome: Outcome
    loss: Float[Tensor, " runs"]
    units: Float[Tensor, " runs"]
    excess: Float[Tensor, " runs"]
    """Of units over those allowed now, as a logarithm; `beyond`, of units that are neither on nor off."""
    beyond: Float[Tensor, " runs"] | None
    kl: Float[Tensor, " runs"] | None
    total: Float[Tensor, " runs"]


class _Relaxation:
    """The state of the relaxed search, all runs at once."""

    def __init__(self, search: LearnedMask, problem: Problem, budget: int, runs: int, seed: int) -> None:
        self.search, self.problem, self.budget = search, problem, budget
        device, units, directions = problem.model.device, len(problem.space), len(problem.labels)
        masks = directions if search.masks == "per-direction" else 1
        self.generators = [torch.Generator().manual_seed(seed + run) for run in range(runs)]
        self.kl_noise = torch.Generator().manual_seed(seed)
        noise = uniform(self.generators, (masks, units), device)
        self.logits = (1.0 + 0.2 * (noise - 0.5)).requires_grad_()
        noise = uniform(self.generators, (directions, problem.space.coordinates), device)
        self.standard = problem.standard
        self.standardised = 0.1 * (noise - 0.5)
        self.pool = units
        if 0 < search.pool < units:
            self.pool = max(search.pool, budget)
            self._begin_with(*likeliest(problem, search.terms, self.pool, seed))
        self.standardised.requires_grad_()
        self.optimiser = torch.optim.Adam(
            [
                {"params": [self.logits], "lr": search.mask_rate},
                {"params": [self.standardised], "lr": search.value_rate},
            ],
            betas=(0.9, 0.99),
        )
        rate, damping = search.multiplier_rate, search.damping
        self.units_multiplier = Multiplier(runs, rate, damping=damping, device=device)
        self.fraction_multiplier = Multiplier(runs, rate, damping=damping, device=device)
        self.fractional = budget_of(search.max_fractional or 1, units, "max_fractional")
        self.kl_constraint = None
        if search.max_kl is not None:
            self.kl_constraint = KLConstraint(runs, search.max_kl, rate / 2, damping / 4, device)
        self.batches = problem.batches(search.batch, seed)
        self.low, self.high = (self.standard.standardised(bound) for bound in bounds_of(problem))
        self.update = 0
        self.broken = torch.full((runs,), -1, device=device)
        """The first update at which a run's loss was no number."""

    def _begin_with(
        self, units: Int[Tensor, " pool"], values: Float[Tensor, "directions coordinates"]
    ) -> None:
        """The other units are as good as off, and a unit starts where it is in sentences of the other label: among
        thousands of units, what all of them do at their means says little about what a few will do."""
        with torch.no_grad():
            out = torch.ones_like(self.logits, dtype=torch.bool)
            out[..., units] = False
            self.logits[out] = _OFF
            self.standardised += self.standard.standardised(values)

    @property
    def values(self) -> Float[Tensor, "runs directions coordinates"]:
        return self.standard.values(self.standardised)

    def run(self, progress: Callable[[Progress], None] | None, checkpoint: Checkpoint | None) -> None:
        updates = self.search.updates
        every = max(1, updates // 60)
        while self.update < updates:
            told = self.update % every == 0 or self.update == updates - 1
            row = self.step(told)
            if row is not None:
                self.check_finite()
                if progress is not None:
                    progress(row)
            if checkpoint is not None and checkpoint.due():
                checkpoint.save(self.state())

    def target(self) -> float:
        """The number of units allowed now: shrinks by a constant factor per update, from all units to the budget."""
        search = self.search
        share = self.update / (search.anneal * search.updates) if search.anneal else 1.0
        return shrinking(self.pool, self.budget, share)

    def step(self, told: bool) -> Progress | None:
        search, target = self.search, self.target()
        slack = max(1.0, target / self.budget)
        batch = self.batches[self.update % len(self.batches)]
        noise = uniform(self.generators, tuple(self.logits.shape[1:]), self.logits.device)
        drawn = search.terms.draw(batch, self.kl_noise)
        seen = self.problem.as_memory_allows(partial(self._descend, batch, noise, drawn, target, slack))
        self.optimiser.step()
        with torch.no_grad():
            torch.clamp(self.standardised, self.low, self.high, out=self.standardised)
            self.units_multiplier.ascend(seen.excess)
            if seen.beyond is not None:
                self.fraction_multiplier.ascend(seen.beyond)
            if self.kl_constraint is not None and seen.kl is not None:
                self.kl_constraint.ascend(seen.kl, slack)
            new = ~seen.total.isfinite() & (self.broken < 0)
            self.broken = torch.where(new, torch.full_like(self.broken, self.update), self.broken)
        self.update += 1
        if not told:
            return None
        loss = seen.loss.tolist()
        extra = {"multiplier": self.units_multiplier.value.tolist(), "target": [target] * len(loss)}
        if seen.kl is not None:
            extra["kl"] = seen.kl.tolist()
        accuracy = seen.outcome.flipped().float().mean(1).tolist()
        return Progress("learn", self.update, search.updates, loss, seen.units.tolist(), accuracy, extra)

    def _descend(
        self,
        batch: Problem,
        noise: Float[Tensor, "runs masks units"],
        drawn: Int[Tensor, " nodes"] | None,
        target: float,
        slack: float,
    ) -> _Seen:
        """Gradients by logits and values, and nothing else is changed: it may have to be begun again."""
        search, family = self.search, self.search.family
        self.optimiser.zero_grad()
        mask = family.sample(self.logits, noise)
        both = mask.expand(-1, len(self.problem.labels), -1)
        outcome = batch.run(both, self.values, zeros_stay=True)
        loss = search.terms.loss(outcome)
        units = family.nonzero(self.logits).sum(-1).mean(-1)  # with a mask per direction: the mean of the two
        excess = (units / target).log()
        total = loss + self.units_multiplier.term(excess)
        beyond = kl = None
        if search.max_fractional is not None:
            inside = family.fractional(self.logits).sum(-1).mean(-1)
            beyond = (inside / (self.fractional * slack)).log()
            total = total + self.fraction_multiplier.term(beyond)
        if drawn is not None:
            kl = search.terms.kl(batch, outcome, drawn)
            total = total + search.kl_weight * kl
            if self.kl_constraint is not None:
                total = total + self.kl_constraint.term(kl, slack)
        total.sum().backward()
        return _Seen(outcome, loss, units, excess, beyond, kl, total)

    def check_finite(self) -> None:
        broken = self.broken.tolist()
        runs = [run for run, update in enumerate(broken) if update >= 0]
        if runs:
            more = f" (and of {len(runs) - 1} more)" if len(runs) > 1 else ""
            raise PivotalError(
                f"The loss must be a finite number, but it was not at update {broken[runs[0]] + 1} of run "
                f"{runs[0]}{more}. Lower mask_rate and value_rate, or check the model's weights."
            )

    def reached(self) -> tuple[Intervention, ...]:
        allowed = most_units(self.search.max_units, self.problem)
        mask = hard_mask(self.search.family, self.logits.detach(), allowed)
        return interventions_of(self.problem, mask.expand(-1, len(self.problem.labels), -1), self.values)

    def state(self) -> dict[str, Any]:
        return {
            "update": self.update,
            "logits": self.logits.detach(),
            "values": self.standardised.detach(),
            "optimiser": self.optimiser.state_dict(),
            "units_multiplier": self.units_multiplier.value,
            "fraction_multiplier": self.fraction_multiplier.value,
            "kl_constraint": self.kl_constraint.state() if self.kl_constraint else None,
            "noise": [g.get_state() for g in (*self.generators, self.kl_noise)],
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.update = state["update"]
        with torch.no_grad():
            self.logits.copy_(state["logits"])
            self.standardised.copy_(state["values"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.units_multiplier.value = state["units_multiplier"].to(self.logits.device)
        self.fraction_multiplier.value = state["fraction_multiplier"].to(self.logits.device)
        if self.kl_constraint is not None:
            self.kl_constraint.restore(state["kl_constraint"])
        for generator, saved in zip((*self.generators, self.kl_noise), state["noise"], strict=True):
            generator.set_state(saved.cpu())


def hard_mask(
    family: HardConcrete, logits: Float[Tensor, "runs masks units"], budget: int
) -> Bool[Tensor, "runs masks units"]:
    """On where the expected mask exceeds one half; at most `budget` units, the likeliest, and at least one."""
    order = logits.argsort(dim=-1, descending=True)
    rank = torch.empty_like(order).scatter_(
        -1, order, torch.arange(logits.shape[-1], device=logits.device).expand_as(order)
    )
    return (family.hard(logits) & (rank < budget)) | (rank == 0)
