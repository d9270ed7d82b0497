"""Ranking by gradients: a linear estimate of the effect of replacing each unit, in one pass for all units."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.models.edits import spread
from pivotal.options import check_least
from pivotal.problem.objective import Terms
from pivotal.problem.problem import Problem
from pivotal.searches.base import Attempt, Discovery, Progress, most_units, require
from pivotal.searches.choose_then_fit import Selection
from pivotal.searches.tools import SetValues
from pivotal.searches.tools.refit import FITTED, RATE, Refit
from pivotal.searches.tools.trials import ends_of, grid_of

Method = Literal["gradient", "integrated"]
Value = Literal["range", "bound", "target-mean"]

Ranked: TypeAlias = tuple[Float[Tensor, " units"], SetValues]
"""The score of each unit (higher is better), and the values with which units are tried."""

_LOOKS = 3
"""How often the fit scores its values."""
_POSITIONS = 128
"""Number of drawn positions at which the fit measures the KL of its scores."""
LONGER = 6
"""A fit with a bound has this many times the updates."""


@dataclass(frozen=True)
class Attribution(Selection):
    """Rank units by -d loss / d mask and take the first k. This is gradient x (h - value), summed over the edited
    states and over both directions. The value is the end of the unit's natural range with the larger gain, chosen for
    each direction.

    `gradient` takes the gradient at mask = 0. `integrated` takes its mean over masks from 0 to `reach`, where all units
    have the same mask value, as in integrated gradients. The sum over the units, times `reach`, is then about what the
    loss falls by when all masks are set to `reach`.
    """

    name: ClassVar[str] = "attribution"
    summary: ClassVar[str] = (
        "a first look in seconds: units ranked by gradient x (h - value), values refitted"
    )

    method: Method = "integrated"
    """The gradient at mask = 0, or its mean over masks from 0 to `reach` (integrated gradients)."""
    value: Value = "range"
    """The replacement of a unit: the end of its natural range with the larger gain, the bound of its values with the
    larger gain, or its mean under the target label."""
    reach: float = 0.25
    """The mask value at which `integrated` ends, above 0 and up to 1. Few units will be set, and with all units fully
    set the loss hardly depends on any of them."""
    points: int = 4
    """Number of mask values at which `integrated` takes the gradient."""
    prefixes: int = 128
    """Distinct prefixes on which gradients are taken. 0 uses all."""
    batch: int = 64
    """Distinct prefixes per update of the values. 0 uses all prefixes in every update."""
    refit: int = 20
    """Updates of the values after the units are chosen, six times as many with a bound on KL or on changes. 0 keeps
    the values with which they were chosen."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, points=1, prefixes=0)
        require(self, "above 0 and up to 1", lambda x: 0 < x <= 1, "reach")

    @property
    def terms(self) -> Terms:
        return super().terms.for_batches(self.batch)

    def last_fit(self) -> tuple[Refit, int]:
        """Few and large steps from the ends of the ranges, on few prefixes. With a bound the fit is long, because
        values converge to it only after many small updates."""
        if self.terms.bounded:
            return Refit(self.terms, LONGER * self.refit, batch=2 * self.batch), 0
        return Refit(self.terms, self.refit, RATE, self.batch, _LOOKS, _POSITIONS), FITTED

    def _solve(self, problem: Problem, attempt: Attempt) -> Discovery:
        shape = (attempt.runs, len(problem.labels), len(problem.space))
        mask, values = torch.zeros(shape, dtype=torch.bool, device=problem.model.device), []
        for run, row in enumerate(mask):
            attempt.report(Progress("rank", run, attempt.runs))
            attempt.between_steps()
            score, at = self.rank(problem, attempt.seed + run)
            row[:, score.topk(most_units(self.max_units, problem)).indices] = True
            values.append(at)
        return self.conclude(problem, mask, torch.stack(values), attempt)

    def rank(self, problem: Problem, seed: int) -> Ranked:
        """Rank all units on a sample of the training pairs."""
        sample = problem.sample(self.prefixes, seed)
        at = torch.zeros(1, device=problem.model.device)
        if self.value == "target-mean":
            values = problem.measure_activations().target
        else:
            low, high = self._ends(problem)
            lower = self._slope(sample, low, at) < self._slope(sample, high, at)
            values = torch.where(spread(problem.space, lower), low, high)
        if self.method == "integrated":
            at = self.reach * (torch.arange(self.points, device=at.device) + 0.5) / self.points
        return -self._slope(sample, values, at).sum(0), values

    def _ends(self, problem: Problem) -> tuple[SetValues, SetValues]:
        """The two values of each unit to choose from. With unbounded values, `range` still takes the ends of the
        natural range: a gradient says little about values far outside it."""
        natural = self.value == "range" and problem.values == "unbounded"
        return ends_of(grid_of(problem.with_values("natural") if natural else problem, points=3))

    def _slope(
        self, problem: Problem, values: SetValues, at: Float[Tensor, " points"]
    ) -> Float[Tensor, "directions units"]:
        """d loss / d mask, averaged over the mask values `at`. All units have the same mask value."""
        total = torch.zeros(len(problem.labels), len(problem.space), device=values.device)
        drawn = self.terms.draw(problem, torch.Generator().manual_seed(0), _POSITIONS)

        def slope(some: Float[Tensor, " some"]) -> Float[Tensor, "some directions units"]:
            mask = some[:, None, None].repeat(1, *total.shape).requires_grad_()
            outcome = problem.run(mask, values.expand(len(mask), -1, -1))
            return torch.autograd.grad(self.terms.loss(outcome, drawn).sum(), mask)[0]

        for some in at.split(problem.runs_at_once(learning=True)):
            total += problem.as_memory_allows(partial(slope, some)).sum(0)
        return total / len(at)
