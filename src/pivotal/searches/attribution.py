"""Ranking by gradients: a linear estimate of the effect of replacing each unit, in one pass for all units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.models.edits import spread
from pivotal.problem.problem import Problem
from pivotal.searches.base import require_least
from pivotal.searches.choose_then_fit import Ranked, Ranking
from pivotal.searches.tools.trials import ends_of, grid_of

Method = Literal["gradient", "integrated"]
Value = Literal["target-mean", "bound"]


@dataclass(frozen=True)
class Attribution(Ranking):
    """Rank units by -d loss / d mask and take the first k. This is gradient x (h - value), summed over the edited
    states and over both directions.

    `gradient` takes the gradient at mask = 0. `integrated` takes its mean over masks from 0 to 1, where all units have
    the same mask value, as in integrated gradients. The sum over the units is then the total change of the loss.
    """

    name: ClassVar[str] = "attribution"
    summary: ClassVar[str] = (
        "units ranked by gradient x (value - h), or by integrated gradients; values refitted"
    )

    method: Method = "integrated"
    """The gradient at mask = 0, or its mean over masks from 0 to 1 (integrated gradients)."""
    value: Value = "target-mean"
    """The replacement of a unit: its mean under the target label, or the bound with the larger gain."""
    points: int = 8
    """Number of mask values at which `integrated` takes the gradient."""
    prefixes: int = 512
    """Distinct prefixes on which gradients are taken. 0 uses all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_least(self, points=1, prefixes=0)

    def rank(self, problem: Problem, seed: int, tell: Callable[[float], None]) -> Ranked:
        sample = problem.sample(self.prefixes, seed)
        start = torch.zeros(1, device=problem.model.device)
        values = problem.measure_activations().target
        if self.value == "bound":
            grid = grid_of(problem, points=3)
            low, high = ends_of(grid)
            lower = self._slope(sample, low, start) < self._slope(sample, high, start)
            values = torch.where(spread(problem.space, lower), low, high)
        if self.method == "integrated":
            start = (torch.arange(self.points, device=start.device) + 0.5) / self.points
        return -self._slope(sample, values, start).sum(0), values

    def _slope(
        self, problem: Problem, values: Float[Tensor, "directions coordinates"], at: Float[Tensor, " points"]
    ) -> Float[Tensor, "directions units"]:
        """d loss / d mask, averaged over the mask values `at`. All units have the same mask value."""
        total = torch.zeros(len(problem.labels), len(problem.space), device=values.device)

        def slope(some: Float[Tensor, " some"]) -> Float[Tensor, "some directions units"]:
            mask = some[:, None, None].repeat(1, *total.shape).requires_grad_()
            outcome = problem.run(mask, values.expand(len(mask), -1, -1))
            return torch.autograd.grad(self.terms.loss(outcome).sum(), mask)[0]

        for some in at.split(problem.runs_at_once(learning=True)):
            total += problem.as_memory_allows(partial(slope, some)).sum(0)
        return total / len(at)
