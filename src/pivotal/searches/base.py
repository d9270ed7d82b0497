"""The interface of a search, its result, and the checks that searches share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from pivotal.errors import PivotalError, check_whole
from pivotal.models.bases import stored_bases
from pivotal.problem.objective import TOLERANCE, Terms
from pivotal.problem.problem import Problem
from pivotal.questions.question import check_seed
from pivotal.records.frame import to_frame
from pivotal.records.intervention import Intervention
from pivotal.records.run import Progress as Progress  # noqa: PLC0414 - what a search reports
from pivotal.searches.tools import HardMasks, RunValues, SoftMasks
from pivotal.units import MAX_UNITS, Values
from pivotal.watch import reporting


@runtime_checkable
class Checkpoint(Protocol):
    """Where a search keeps its state, so that it can be stopped and resumed."""

    def load(self) -> dict[str, Any] | None:
        """The state to resume from; None at the first start."""

    def save(self, state: dict[str, Any]) -> None: ...

    def between_steps(self, state: Callable[[], dict[str, Any]] | None = None) -> None:
        """Save the state if it is due. If a stop was requested, save the state and raise an exception.

        A search calls this between two steps. It passes no `state` if it cannot resume.
        """


@dataclass(frozen=True)
class Attempt:
    """The arguments of one call of `Search.solve`."""

    runs: int = 1
    seed: int = 0
    """The seed of the first run. Run `r` uses `seed + r`."""
    progress: Callable[[Progress], None] | None = None
    """A function that receives the progress reports."""
    checkpoint: Checkpoint | None = None

    def report(self, progress: Progress) -> None:
        if self.progress is not None:
            self.progress(progress)

    def load(self) -> dict[str, Any] | None:
        """The state to resume from, if there is one."""
        return None if self.checkpoint is None else self.checkpoint.load()

    def between_steps(self, state: Callable[[], dict[str, Any]] | None = None) -> None:
        """See `Checkpoint.between_steps`."""
        if self.checkpoint is not None:
            self.checkpoint.between_steps(state)


@dataclass(frozen=True, slots=True)
class Discovery:
    """The result of a search: one intervention per run, its score, and the scores of its stages."""

    interventions: tuple[Intervention, ...]
    train_score: tuple[float, ...]
    """The score of each run on training pairs; lower is better. It decides which run is the best."""
    stages: tuple[dict[str, dict[str, float]], ...]
    """For each run and stage (relaxed mask, hard mask, ...): loss, accuracy, units and KL on training pairs."""

    @property
    def best_run(self) -> int:
        """The index of the run with the lowest training score."""
        return int(np.argmin(self.train_score))

    @property
    def best(self) -> Intervention:
        """The intervention of the best run."""
        return self.interventions[self.best_run]

    def to_frame(self) -> Any:
        """A data frame with a row for each unit of each run: its value in each direction."""
        return to_frame(
            [
                {"run": run, "best": run == self.best_run, "unit": str(unit)}
                | {label: row[i] for label, row in one.shown_values.items()}
                | {"train_score": self.train_score[run]}
                for run, one in enumerate(self.interventions)
                for i, unit in enumerate(one.units)
            ]
        )

    def __repr__(self) -> str:
        if len(self.interventions) == 1:
            return f"Discovery({self.best!r})"
        return f"Discovery({len(self.interventions)} runs, the best is run {self.best_run}: {self.best!r})"

    def _repr_html_(self) -> str:
        from pivotal.report.notebook import discovery_html

        return discovery_html(self)

    def plot(self) -> Any:
        """An altair chart of the values that the units of all runs are set to."""
        from pivotal.report.notebook import plot_interventions

        return plot_interventions(self.interventions)


class Search(ABC):
    """An algorithm that turns a Problem into a Discovery.

    A subclass is a frozen dataclass whose fields are the settings. It implements `_solve`.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    preset_values: ClassVar[Mapping[str, Values]] = {}
    """What a preset sets units to, by its name. The command line and recipes use it if they do not say `values`."""

    @property
    def terms(self) -> Terms:
        """The loss that the search minimises. Random controls use the same loss if it has a bound on KL."""
        return Terms()

    def check_there(self) -> None:  # noqa: B027 - most searches name nothing
        """Raise PivotalError if the settings name something that does not exist. A study calls this first."""

    def start_fingerprint(self) -> str | None:
        """Identifies the saved intervention that the search starts from. None if it starts from none."""
        return None

    def check(self, problem: Problem, runs: int, seed: int) -> None:  # noqa: B027 - a search may have nothing to refuse
        """Raise PivotalError if these settings cannot solve the problem."""

    def solve(
        self,
        problem: Problem,
        *,
        runs: int = 1,
        seed: int = 0,
        progress: Callable[[Progress], None] | bool | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Discovery:
        """Search for units that decide the problem, `runs` times. Run `r` uses the seed `seed + r`.

        `progress=True` shows a bar in a notebook or a terminal. If `progress` is a function, it receives every report.
        """
        problem.check_whole_bases()
        self.check(problem, runs, seed)
        with reporting(progress) as report:
            return self._solve(problem, Attempt(runs, seed, report, checkpoint))

    @abstractmethod
    def _solve(self, problem: Problem, attempt: Attempt) -> Discovery:
        """Implement `solve`. The settings were checked before. All runs can share each pass through the model."""


class Stages:
    """Loss, accuracy and units of every run on training pairs, from the relaxed mask to the final one.

    They show how much is lost when the mask is made hard.
    """

    def __init__(self, terms: Terms, sample: Problem, attempt: Attempt) -> None:
        self._terms, self._sample, self._attempt = terms, sample, attempt
        self._rows: dict[str, dict[str, list[float]]] = {}
        self.score: list[float] = []
        """The score of each run at the last stage. It includes KL and the bounds."""
        self.costly: list[bool] = []
        """Whether each run exceeds the bound on KL at the last stage by more than the sampling tolerance."""
        self._last: tuple[str, Tensor, Tensor] | None = None
        """The name, the mask and the values of the last stage."""

    @torch.no_grad()
    def add(self, name: str, mask: SoftMasks, values: RunValues) -> None:
        """Score a stage. One that changed nothing has the scores of the last one."""
        if self._last is not None and torch.equal(mask, self._last[1]) and torch.equal(values, self._last[2]):
            row = self._rows[self._last[0]]
        else:
            row = self._scores(mask, values)
        self._last = (name, mask, values)
        self._rows[name] = row
        self._attempt.report(Progress(name, 1, 1, row["loss"], row["units"], row["accuracy"]))

    def _scores(self, mask: SoftMasks, values: RunValues) -> dict[str, list[float]]:
        outcome = self._sample.run(mask, values)
        loss = self._terms.loss(outcome)
        accuracy = outcome.flips().tolist()
        units = mask.amax(1).sum(-1).tolist()
        row = {"loss": loss.tolist(), "accuracy": accuracy, "units": units}
        costs = self._terms.costs(self._sample, outcome)
        if self._terms.wants_kl:
            row["kl"] = costs[:, 0].tolist()
        if self._sample.preferences.names:
            row["change"] = costs[:, 1:].abs().amax(1).tolist()
        self.costly = (costs[:, 0] > TOLERANCE * (self._terms.max_kl or torch.inf)).tolist()
        self.score = self._terms.score(self._sample, loss, costs).tolist()
        return row

    def discovery(self, problem: Problem, mask: HardMasks, values: RunValues) -> Discovery:
        """The result of the search after its last stage."""
        by_run = tuple(
            {name: {key: column[run] for key, column in row.items()} for name, row in self._rows.items()}
            for run in range(len(self.score))
        )
        return Discovery(interventions_of(problem, mask, values), tuple(self.score), by_run)


def require(search: Search, rule: str, holds: Callable[[Any], bool], *names: str) -> None:
    """Raise PivotalError if one of the named settings breaks the rule."""
    for name in names:
        if not holds(getattr(search, name)):
            raise PivotalError(f"{name} must be {rule}, but it is {getattr(search, name):g}.", name)


MOST_RUNS = 10_000
"""The most runs of a search. All runs are computed together, so that many more would not fit into any memory."""


def check_runs(runs: int, seed: int) -> None:
    """Raise PivotalError if the number of runs or the seed is out of range."""
    check_whole(1, MOST_RUNS, runs=runs)
    check_seed(seed)


def check_budget(max_units: int | float | None, name: str = "max_units") -> None:
    """Raise PivotalError if this is not a number or a fraction of units. None, the default, is allowed."""
    if max_units is not None and not (0 < max_units < 1 or (max_units >= 1 and max_units % 1 == 0)):
        raise PivotalError(
            f"{name} is a number of units, 1 or more, or a fraction of them below 1, but it is {max_units:g}.",
            name,
        )


def budget_of(max_units: int | float, units: int, name: str = "max_units") -> int:
    """Convert a number of units (>= 1) or a fraction of all units (< 1) to a number of units."""
    check_budget(max_units, name)
    if max_units > units:
        raise PivotalError(
            f"There are {units} units in the sites searched, but {name} is {max_units:g}. Ask for fewer."
        )
    return int(max_units) if max_units >= 1 else max(1, int(max_units * units))


def most_units(max_units: int | float | None, problem: Problem) -> int:
    """The maximum number of units for this problem."""
    return budget_of(MAX_UNITS[problem.steps] if max_units is None else max_units, len(problem.space))


def interventions_of(problem: Problem, mask: HardMasks, values: RunValues) -> tuple[Intervention, ...]:
    """Convert hard masks and values to interventions, one per run. An interchange has other values for each pair; their
    means are handed over."""
    if problem.values == "interchange":
        values = problem.counterfactual_means.expand_as(values)
    frozen, known = [], problem.pairs.fingerprint()
    for on, value in zip(mask.cpu(), values.detach().cpu(), strict=True):
        ids = on.any(0).nonzero()[:, 0].tolist()
        units = tuple(problem.space.unit(i) for i in ids)
        at = [coordinate for unit in units for coordinate in problem.space.places(unit)]
        frozen.append(
            Intervention(
                units=units,
                directions=problem.labels,
                values=value[:, at].numpy(),
                active=on[:, ids].numpy(),
                steps=problem.steps,
                model=problem.model.name,
                model_fingerprint=problem.model.fingerprint(),
                phenomenon=problem.pairs.name,
                data_fingerprint=known,
                found_with=problem.values,
                bases=stored_bases(problem.model.bases, units),
            )
        )
    return tuple(frozen)
