"""Settings and steps shared by the searches that choose units and then fit their values."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.options import check_choices
from pivotal.problem.objective import Objective, Terms
from pivotal.problem.problem import Problem
from pivotal.searches.base import (
    Attempt,
    Discovery,
    Progress,
    Search,
    Stages,
    check_budget,
    check_runs,
    most_units,
    require,
    require_least,
)
from pivotal.searches.tools import HardMasks, RunValues, SetValues
from pivotal.searches.tools.refit import Refit

_SAMPLE = 512
"""Number of distinct training prefixes on which the result is scored."""

Ranked: TypeAlias = tuple[Float[Tensor, " units"], SetValues]


@dataclass(frozen=True)
class Selection(Search):
    """The settings that these searches share."""

    max_units: int | float | None = None
    """Maximum number of units (1 or more), or a fraction of all units (below 1). Default: 4 at every step, 5 at a
    single step."""
    objective: Objective = "soft-margin"
    """`ratio` is the paper's p(d)/p(t). `soft-margin` grows linearly with the log ratio and is more stable."""
    margin: float = 1.0
    """Margin of the soft-margin loss beyond a tie, in nats."""
    max_kl: float | None = None
    """Bound on KL to the untouched model, averaged over all positions."""
    max_change: float | None = None
    """Bound on the change of each question of --keep, in each direction: the mean over its pairs of p' - p, where p and
    p' are the probabilities of the expected word among the two of a pair, untouched and edited."""
    kl_weight: float = 0.1
    """Weight of KL in the loss (the paper uses 1). 0 omits KL."""
    batch: int = 128
    """Distinct prefixes per update of the values. 0 uses all prefixes in every update."""
    refit: int = 120
    """Updates of the values after the units are chosen. 0 keeps the values with which they were chosen."""

    def __post_init__(self) -> None:
        check_budget(self.max_units)
        check_choices(self)
        require(self, "0 or more and finite", lambda x: 0 <= x < math.inf, "margin", "kl_weight")
        require_least(self, batch=0, refit=0)
        bounds = ("max_kl", "max_change")
        require(self, "above 0; leave it out for no bound", lambda x: x is None or x > 0, *bounds)

    @property
    def terms(self) -> Terms:
        return Terms(self.objective, self.margin, self.kl_weight, self.max_kl, self.max_change)

    def check(self, problem: Problem, runs: int, seed: int) -> None:
        check_runs(runs, seed)
        most_units(self.max_units, problem)
        if self.max_change is not None and not problem.preferences.names:
            raise PivotalError(
                f"max_change bounds the questions of --keep, but there is none, and max_change is "
                f"{self.max_change:g}. Name a question with --keep, or leave max_change out.",
                "max_change",
            )

    def conclude(self, problem: Problem, mask: HardMasks, values: RunValues, attempt: Attempt) -> Discovery:
        """Refit the values of the chosen units and score the result on training pairs."""
        mask = mask.to(problem.model.device)
        values = values.to(problem.model.device).clamp(*problem.bounds())
        stages = Stages(self.terms, problem.sample(_SAMPLE, attempt.seed), attempt)
        stages.add("chosen", mask.float(), values)
        if self.refit:
            refit, prefixes = self.last_fit()
            part = problem.sample(prefixes, attempt.seed)
            values = refit.fit(part, mask.float(), values, seed=attempt.seed).values
        stages.add("final", mask.float(), values)
        return stages.discovery(problem, mask, values)

    def last_fit(self) -> tuple[Refit, int]:
        """The fit of the values of the chosen units, and the number of distinct prefixes to fit them on; 0 is all."""
        return Refit(self.terms, self.refit, batch=self.batch), 0


class Ranking(Selection):
    """Searches that score every unit once and take the units with the highest scores."""

    @abstractmethod
    def rank(self, problem: Problem, seed: int, tell: Callable[[float], None]) -> Ranked:
        """The score of each unit (higher is better) and the initial values. `tell` receives the share done."""

    def _ranked(self, problem: Problem, attempt: Attempt) -> list[Ranked]:
        def tell(run: int, share: float) -> None:
            done = round(100 * (run + share) / attempt.runs)
            attempt.report(Progress("rank", done, 100))
            attempt.between_steps()

        return [self.rank(problem, attempt.seed + run, partial(tell, run)) for run in range(attempt.runs)]

    def _solve(self, problem: Problem, attempt: Attempt) -> Discovery:
        ranked = self._ranked(problem, attempt)
        return self._top(problem, ranked, most_units(self.max_units, problem), attempt)

    def _top(self, problem: Problem, ranked: Sequence[Ranked], size: int, attempt: Attempt) -> Discovery:
        values = torch.stack([value for _, value in ranked])
        shape = (len(ranked), len(problem.labels), len(problem.space))
        mask = torch.zeros(shape, dtype=torch.bool, device=values.device)
        for row, (score, _) in zip(mask, ranked, strict=True):
            row[:, score.topk(size).indices] = True
        return self.conclude(problem, mask, values, attempt)
