"""What searches share that choose units by scores of their own and fit the values afterwards."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pivotal.options import check_choices
from pivotal.problem.objective import Objective, Terms
from pivotal.problem.problem import Problem
from pivotal.searches.base import (
    Checkpoint,
    Clock,
    Discovery,
    Point,
    Progress,
    Search,
    Stages,
    budget_of,
    check_budget,
    check_runs,
    interventions_of,
    most_units,
    require,
    require_least,
)
from pivotal.searches.tools.refit import Refit

_SAMPLE = 512
"""Distinct training prefixes on which the result is scored."""

Ranked: TypeAlias = tuple[Float[Tensor, " units"], Float[Tensor, "directions coordinates"]]


@dataclass(frozen=True)
class Selection(Search):
    """The settings that such searches have in common."""

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
    batch: int = 128
    """Distinct prefixes per update of the values; 0 takes all of them every time."""
    refit: int = 120
    """Updates of the values once the units are chosen; 0 keeps those by which they were chosen."""

    def __post_init__(self) -> None:
        check_budget(self.max_units)
        check_choices(self)
        require(self, "0 or more and finite", lambda x: 0 <= x < math.inf, "margin", "kl_weight")
        require_least(self, batch=0, refit=0)
        require(self, "above 0; leave it out for no bound", lambda x: x is None or x > 0, "max_kl")

    @property
    def terms(self) -> Terms:
        return Terms(self.objective, self.margin, self.kl_weight, self.max_kl)

    def check(self, problem: Problem, runs: int, seed: int) -> None:
        check_runs(runs, seed)
        most_units(self.max_units, problem)

    def conclude(
        self,
        problem: Problem,
        mask: Bool[Tensor, "runs directions units"],
        values: Float[Tensor, "runs directions coordinates"],
        seed: int,
        progress: Callable[[Progress], None] | None,
    ) -> Discovery:
        """Fit the values of the chosen units, from where they stand, and score the result on training pairs."""
        mask, values = mask.to(problem.model.device), values.to(problem.model.device)
        stages = Stages(self.terms, problem.sample(_SAMPLE, seed), progress)
        stages.add("chosen", mask.float(), values)
        if self.refit:
            refit = Refit(self.terms, self.refit, batch=self.batch)
            values = refit.fit(problem, mask.float(), values, seed=seed).values
        stages.add("final", mask.float(), values)
        return Discovery(interventions_of(problem, mask, values), tuple(stages.score), stages.by_run())

    def concluding(self, problem: Problem, runs: int) -> int:
        """Node evaluations that `conclude` takes, about."""
        fit = Refit(self.terms, self.refit, batch=self.batch).nodes(problem, runs) if self.refit else 0
        return fit + 2 * runs * problem.sample(_SAMPLE).tree.n_live


class Ranking(Selection):
    """Searches that give every unit a score once and take the k best."""

    @abstractmethod
    def rank(self, problem: Problem, seed: int, tell: Callable[[float], None]) -> Ranked:
        """Each unit's score, more is better, and the values to start from. `tell` is told the share that is done."""

    def _ranked(
        self,
        problem: Problem,
        runs: int,
        seed: int,
        progress: Callable[[Progress], None] | None,
        checkpoint: Checkpoint | None = None,
    ) -> list[Ranked]:
        def tell(run: int, share: float) -> None:
            if progress is not None:
                progress(Progress("rank", round(100 * (run + share) / runs), 100, [], [], []))
            if checkpoint is not None:
                checkpoint.between_steps()

        return [self.rank(problem, seed + run, partial(tell, run)) for run in range(runs)]

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
        ranked = self._ranked(problem, runs, seed, progress, checkpoint)
        return self._top(problem, ranked, most_units(self.max_units, problem), seed, progress)

    def frontier(
        self,
        problem: Problem,
        sizes: Sequence[int],
        *,
        runs: int = 1,
        seed: int = 0,
        progress: Callable[[Progress], None] | None = None,
    ) -> Iterator[Point]:
        """The units are ranked once for all sizes; every size bears the price of that."""
        check_runs(runs, seed)
        for size in sizes:
            budget_of(size, len(problem.space))
        clock = Clock(problem)
        ranked = self._ranked(problem, runs, seed, progress)
        shared = clock.read()
        for size in sizes:
            clock = Clock(problem)
            found = self._top(problem, ranked, size, seed, progress)
            yield Point(size, found, shared + clock.read())

    def _top(
        self,
        problem: Problem,
        ranked: Sequence[Ranked],
        size: int,
        seed: int,
        progress: Callable[[Progress], None] | None,
    ) -> Discovery:
        values = torch.stack([value for _, value in ranked])
        shape = (len(ranked), len(problem.labels), len(problem.space))
        mask = torch.zeros(shape, dtype=torch.bool, device=values.device)
        for row, (score, _) in zip(mask, ranked, strict=True):
            row[:, score.topk(size).indices] = True
        return self.conclude(problem, mask, values, seed, progress)
