"""What a search is, and what it hands over."""

from __future__ import annotations

import operator
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.problem.objective import KL_TOLERANCE, Terms
from pivotal.problem.problem import Problem
from pivotal.records.history import Progress as Progress  # noqa: PLC0414 - what a search reports
from pivotal.records.intervention import Intervention
from pivotal.searches.progress import reporting
from pivotal.units import MAX_UNITS


@runtime_checkable
class Checkpoint(Protocol):
    """Where a search keeps its state, so that it can be stopped and resumed."""

    def load(self) -> dict[str, Any] | None:
        """The state to resume from; None to begin."""

    def save(self, state: dict[str, Any]) -> None: ...

    def between_steps(self, state: Callable[[], dict[str, Any]] | None = None) -> None:
        """Called by a search between two steps, where nothing is half done. It saves the state if that is due. If a
        stop was requested, it saves the state and raises. A search that has no state to keep gives none."""


@dataclass(frozen=True, slots=True)
class Discovery:
    """What a search found: an intervention per run, and how each came about."""

    interventions: tuple[Intervention, ...]
    train_score: tuple[float, ...]
    """Of each run on training pairs, less is better; the best run is chosen by it, never by held-out pairs."""
    stages: tuple[dict[str, dict[str, float]], ...]
    """Per run: loss, accuracy, units (and KL) on training pairs of the relaxed mask, the hard mask, and so on."""

    @property
    def best_run(self) -> int:
        """The index of the run with the lowest training score."""
        return int(np.argmin(self.train_score))

    @property
    def best(self) -> Intervention:
        """The intervention of the best run."""
        return self.interventions[self.best_run]

    def __repr__(self) -> str:
        if len(self.interventions) == 1:
            return f"Discovery({self.best!r})"
        return f"Discovery({len(self.interventions)} runs, the best is run {self.best_run}: {self.best!r})"

    def _repr_html_(self) -> str:
        from pivotal.report.notebook import discovery_html

        return discovery_html(self)

    def plot(self) -> Any:
        """What the units of all runs are set to, as an altair chart."""
        from pivotal.report.notebook import plot_interventions

        return plot_interventions(self.interventions)


@dataclass(frozen=True, slots=True)
class Cost:
    """What something took: node evaluations, which are the same on every machine, and seconds, which are not."""

    forward: int = 0
    backward: int = 0
    seconds: float = 0.0

    @property
    def nodes(self) -> int:
        return self.forward + self.backward

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.forward + other.forward, self.backward + other.backward, self.seconds + other.seconds
        )


class Clock:
    """Reads what a problem has cost since the clock was made."""

    def __init__(self, problem: Problem) -> None:
        self._work, self._start = problem.work, time.monotonic()
        self._forward, self._backward = problem.work.forward, problem.work.backward

    def read(self) -> Cost:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return Cost(
            self._work.forward - self._forward,
            self._work.backward - self._backward,
            time.monotonic() - self._start,
        )


@dataclass(frozen=True, slots=True)
class Point:
    """What a search finds with so many units, and what it costs to find that alone."""

    size: int
    found: Discovery
    cost: Cost


class Search(ABC):
    """An algorithm that turns a Problem into a Discovery.

    A subclass is a frozen dataclass whose fields are the settings, and implements `_solve`.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    chance: ClassVar[bool] = False
    """Whether it is a yardstick that need find nothing."""

    @property
    def terms(self) -> Terms:
        """The loss that it learns with; the random controls learn with it too where it has a bound on KL to keep."""
        return Terms()

    def check_there(self) -> None:  # noqa: B027 - most searches name nothing
        """PivotalError if something that its settings name is not there; asked before a study begins."""

    def check(self, problem: Problem, runs: int, seed: int) -> None:  # noqa: B027 - a search may have nothing to refuse
        """PivotalError if the problem cannot be solved with these settings; asked before anything is written."""

    def solve(
        self,
        problem: Problem,
        *,
        runs: int = 1,
        seed: int = 0,
        progress: Callable[[Progress], None] | bool | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Discovery:
        """Search for units that decide the problem, `runs` times, each run with a seed of its own: `seed + run`.

        `progress=True` shows a bar in a notebook or a terminal; a function is called with every Progress.
        """
        with reporting(progress) as report:
            return self._solve(problem, runs=runs, seed=seed, progress=report, checkpoint=checkpoint)

    @abstractmethod
    def _solve(
        self,
        problem: Problem,
        *,
        runs: int,
        seed: int,
        progress: Callable[[Progress], None] | None,
        checkpoint: Checkpoint | None,
    ) -> Discovery:
        """What a subclass implements for `solve`. All runs go through the model together."""

    def frontier(
        self,
        problem: Problem,
        sizes: Sequence[int],
        *,
        runs: int = 1,
        seed: int = 0,
        progress: Callable[[Progress], None] | None = None,
    ) -> Iterator[Point]:
        """What it finds with each number of units. A search that meets the small sets on its way to the large ones
        says so by a method of its own."""
        for size in sizes:
            clock = Clock(problem)
            sized = replace(self, max_units=size)  # type: ignore[type-var]
            found = sized.solve(problem, runs=runs, seed=seed, progress=progress)
            yield Point(size, found, clock.read())

    def check_frontier(self) -> None:  # noqa: B027 - most searches can be asked for any number of units
        """PivotalError if it cannot be asked for several numbers of units; asked before a comparison begins."""

    def within(self, problem: Problem, runs: int, nodes: int) -> Search:
        """The same search with settings under which it takes about so many node evaluations, forward and backward,
        if it has settings that decide that."""
        return self


class Stages:
    """Loss, accuracy and units of every run from the relaxed mask to the final one, on training pairs: the gap between
    what was learned and what is handed over."""

    def __init__(
        self, terms: Terms, sample: Problem, progress: Callable[[Progress], None] | None = None
    ) -> None:
        self._terms, self._sample, self._progress = terms, sample, progress
        self._rows: dict[str, dict[str, list[float]]] = {}
        self.score: list[float] = []
        """Of each run at the last stage: the loss, KL at its weight, and whether the KL bound is kept."""
        self.broken: list[bool] = []
        """Of each run at the last stage: is the KL bound broken, by more than samples differ?"""

    @torch.no_grad()
    def add(
        self,
        name: str,
        mask: Float[Tensor, "runs directions units"],
        values: Float[Tensor, "runs directions coordinates"],
    ) -> None:
        outcome = self._sample.run(mask, values)
        loss = self._terms.loss(outcome)
        accuracy = outcome.flipped().float().mean(1).tolist()
        units = mask.amax(1).sum(-1).tolist()
        row = {"loss": loss.tolist(), "accuracy": accuracy, "units": units}
        score = loss
        self.broken = [False] * len(loss)
        if self._terms.wants_kl:
            kl = self._sample.mean_kl(outcome.states)
            row["kl"] = kl.tolist()
            score = self._terms.score(loss, kl)
            if self._terms.max_kl is not None:
                self.broken = (kl > KL_TOLERANCE * self._terms.max_kl).tolist()
        self.score = score.tolist()
        self._rows[name] = row
        if self._progress is not None:
            self._progress(Progress(name, 1, 1, row["loss"], units, accuracy))

    def by_run(self) -> tuple[dict[str, dict[str, float]], ...]:
        return tuple(
            {name: {key: column[run] for key, column in row.items()} for name, row in self._rows.items()}
            for run in range(len(self.score))
        )


def require(search: Search, rule: str, holds: Callable[[Any], bool], *names: str) -> None:
    """PivotalError if one of the named settings breaks the rule."""
    for name in names:
        if not holds(getattr(search, name)):
            raise PivotalError(f"{name} must be {rule}, but it is {getattr(search, name):g}.", name)


def require_least(search: Search, **least: int) -> None:
    """PivotalError if a setting is less than it may be."""
    for name, number in least.items():
        require(search, f"{number} or more", partial(operator.le, number), name)


def check_runs(runs: int, seed: int) -> None:
    if runs < 1:
        raise PivotalError(f"There must be at least one run, but runs is {runs}.")
    if not 0 <= seed < 2**62:
        raise PivotalError(f"A seed is a whole number from 0 to 2^62, but it is {seed}.")


def check_budget(max_units: int | float | None, name: str = "max_units") -> None:
    """PivotalError if no model could have this many units; None is the default."""
    if max_units is None:
        return
    if not max_units > 0:
        raise PivotalError(
            f"A mask needs at least one unit, but {name} is {max_units:g}. Ask for 1 or more.", name
        )
    if max_units >= 1 and max_units % 1:
        raise PivotalError(
            f"{name} is a whole number of units, or a fraction below 1, but it is {max_units:g}.", name
        )


def budget_of(max_units: int | float, units: int, name: str = "max_units") -> int:
    """A number of units (>= 1) or a fraction of them (< 1), as a number of units."""
    check_budget(max_units, name)
    if max_units > units:
        raise PivotalError(
            f"There are {units} units in the sites searched, but {name} is {max_units:g}. Ask for fewer."
        )
    return int(max_units) if max_units >= 1 else max(1, int(max_units * units))


def most_units(max_units: int | float | None, problem: Problem) -> int:
    """The most units that a search may use in this problem."""
    return budget_of(MAX_UNITS[problem.steps] if max_units is None else max_units, len(problem.space))


def interventions_of(
    problem: Problem,
    mask: Bool[Tensor, "runs directions units"],
    values: Float[Tensor, "runs directions coordinates"],
) -> tuple[Intervention, ...]:
    """Hard masks and values as interventions, one per run."""
    frozen = []
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
                data_fingerprint=problem.pairs.fingerprint(),
            )
        )
    return tuple(frozen)
