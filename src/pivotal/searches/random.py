"""The control: units drawn at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from pivotal.problem.problem import Problem
from pivotal.searches.base import Attempt, Discovery, Progress, most_units, require_least
from pivotal.searches.choose_then_fit import Selection
from pivotal.searches.tools.refit import Refit

_AT_ONCE = 64
"""Number of sets whose values are fitted together."""


@dataclass(frozen=True)
class RandomUnits(Selection):
    """Draw sets of units, fit the values of each, and keep the set with the best score on training pairs.

    With many draws it is the control that another search has to beat at equal cost."""

    name: ClassVar[str] = "random"
    summary: ClassVar[str] = "the control: the best of one or more random sets of units, values refitted"
    chance: ClassVar[bool] = True

    draws: int = 1
    """Sets drawn per run. The set with the best score on training pairs is kept."""
    trial: int = 40
    """Updates of the values before several draws are compared."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_least(self, draws=1, trial=1)

    def _solve(self, problem: Problem, attempt: Attempt) -> Discovery:
        runs, seed = attempt.runs, attempt.seed
        mask = torch.stack([self._draw(problem, seed + run) for run in range(runs)])
        values = torch.zeros(runs, len(problem.labels), problem.space.coordinates, device=mask.device)
        if self.draws == 1:
            return self.conclude(problem, mask[:, 0], values, attempt)
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
            attempt.report(Progress("draw", done, self.draws, best.tolist(), [], []))
            attempt.between_steps()
        return self.conclude(problem, chosen, values, attempt)

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
