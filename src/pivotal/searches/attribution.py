"""Ranking by gradients: what would replacing each unit do, if the loss were linear? One pass for all units."""

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
from pivotal.searches.selection import Ranked, Ranking
from pivotal.searches.tools.trials import ends_of, grid_of

Method = Literal["gradient", "integrated"]
Value = Literal["target-mean", "bound"]


@dataclass(frozen=True)
class Attribution(Ranking):
    """Rank units by -d loss / d mask, which is gradient x (h - value) summed over the edited states, and take the k
    best. Both directions count: the gains are summed over them.

    `gradient` takes the slope where nothing is replaced yet. `integrated` takes its mean on the way from nothing
    replaced to everything replaced, mask = t for all units together, as integrated gradients do: a unit's slope is then
    one beside units that have moved as far as itself, and the sum over the units is the whole change of the loss.
    """

    name: ClassVar[str] = "attribution"
    summary: ClassVar[str] = (
        "units ranked by gradient x (value - h), or by integrated gradients; values refitted"
    )

    method: Method = "integrated"
    """The slope where nothing is replaced, or its mean on the way to where all units are."""
    value: Value = "target-mean"
    """What a unit is replaced by: its mean under the other label, or that bound which promises more."""
    points: int = 8
    """Points on the way at which the slope is taken; for `integrated`."""
    prefixes: int = 512
    """Distinct prefixes on which slopes are taken; 0 takes all."""

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
        """d loss / d mask, the mean of what it is where the whole mask is each of `at`."""
        total = torch.zeros(len(problem.labels), len(problem.space), device=values.device)

        def slope(some: Float[Tensor, " some"]) -> Float[Tensor, "some directions units"]:
            mask = some[:, None, None].repeat(1, *total.shape).requires_grad_()
            outcome = problem.run(mask, values.expand(len(mask), -1, -1))
            return torch.autograd.grad(self.terms.loss(outcome).sum(), mask)[0]

        for some in at.split(problem.runs_at_once(learning=True)):
            total += problem.as_memory_allows(partial(slope, some)).sum(0)
        return total / len(at)
