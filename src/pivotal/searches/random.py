"""The control: units at random. What a search is worth is what it finds beyond this."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from pivotal.problem.problem import Problem
from pivotal.searches.base import Checkpoint, Discovery, Progress, most_units, require_least
from pivotal.searches.selection import Selection
from pivotal.searches.tools.refit import Refit

_AT_ONCE = 64
"""Sets whose values are learned together."""


@dataclass(frozen=True)
class RandomUnits(Selection):
    """Draw sets of units, learn the values of each, keep the best on training pairs. With many draws it is a search in
    its own right, and the one that every other has to beat at the same price."""

    name: ClassVar[str] = "random"
    summary: ClassVar[str] = "the control: units drawn at random, values refitted, the best of so many draws"
    chance: ClassVar[bool] = True

    draws: int = 1
    """Sets drawn per run; the best on training pairs is kept."""
    trial: int = 40
    """Updates of the values by which draws are compared, where there are several."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_least(self, draws=1, trial=1)

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
        mask = torch.stack([self._draw(problem, seed + run) for run in range(runs)])
        values = torch.zeros(runs, len(problem.labels), problem.space.coordinates, device=mask.device)
        if self.draws == 1:
            return self.conclude(problem, mask[:, 0], values, seed, progress)
        best = torch.full((runs,), torch.inf, device=mask.device)
        chosen = mask[:, 0].clone()
        done = 0
        for some in mask.split(max(1, _AT_ONCE // runs), dim=1):
            fitted = self._trial.fit(problem, some.flatten(0, 1).float(), seed=seed)
            score, which = fitted.score.view(runs, -1).min(1)
            better = (score < best).nonzero()[:, 0]
            best[better] = score[better]
            chosen[better] = some[better, which[better]]
            values[better] = fitted.values.view(*some.shape[:2], *values.shape[1:])[better, which[better]]
            done += some.shape[1]
            if progress is not None:
                progress(Progress("draw", done, self.draws, best.tolist(), [], []))
            if checkpoint is not None:
                checkpoint.between_steps()
        return self.conclude(problem, chosen, values, seed, progress)

    def within(self, problem: Problem, runs: int, nodes: int) -> RandomUnits:
        left = nodes - self.concluding(problem, runs)
        return replace(self, draws=max(1, int(left / self._trial.nodes(problem, runs))))

    @property
    def _trial(self) -> Refit:
        return Refit(self.terms, self.trial, batch=self.batch)

    def _draw(self, problem: Problem, seed: int) -> Bool[Tensor, "draws directions units"]:
        rng = np.random.default_rng(seed)
        units = len(problem.space)
        size = most_units(self.max_units, problem)
        mask = torch.zeros(self.draws, len(problem.labels), units, dtype=torch.bool)
        for row in mask:
            row[:, rng.choice(units, size, replace=False)] = True
        return mask.to(problem.model.device)
