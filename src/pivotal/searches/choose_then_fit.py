"""Settings and steps shared by the searches that choose units and then fit their values."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pivotal.errors import PivotalError
from pivotal.options import check_least, check_types
from pivotal.problem.objective import FlipLoss, Terms
from pivotal.problem.problem import Problem
from pivotal.searches.base import (
    Attempt,
    Discovery,
    Search,
    Stages,
    check_budget,
    check_runs,
    most_units,
    require,
)
from pivotal.searches.tools import HardMasks, RunValues
from pivotal.searches.tools.refit import Refit

_SAMPLE = 512
"""Number of distinct training prefixes on which the result is scored."""


@dataclass(frozen=True)
class Selection(Search):
    """The settings that these searches share."""

    max_units: int | float | None = None
    """Maximum number of units (1 or more), or a fraction of all units (below 1). Default: 4 at every step, 5 at a
    single step."""
    loss: FlipLoss = "soft-margin"
    """The loss of --objective flips: `ratio` is the paper's p(d)/p(t). `soft-margin` grows linearly with the log ratio
    and is more stable."""
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
        check_types(self)
        check_budget(self.max_units)
        require(self, "0 or more and finite", lambda x: 0 <= x < math.inf, "margin", "kl_weight")
        check_least(self, batch=0, refit=0)
        bounds = ("max_kl", "max_change")
        require(self, "above 0; leave it out for no bound", lambda x: x is None or x > 0, *bounds)

    @property
    def terms(self) -> Terms:
        return Terms(self.loss, self.margin, self.kl_weight, self.max_kl, self.max_change)

    def check(self, problem: Problem, runs: int, seed: int) -> None:
        check_runs(runs, seed)
        most_units(self.max_units, problem)
        if self.max_change is not None and not problem.preferences.names:
            raise PivotalError(
                f"max_change bounds the questions of --keep, but no question was given, and max_change is "
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
