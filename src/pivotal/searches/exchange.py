"""Local search: start from the result of another search and swap single units while that lowers the loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch

from pivotal.errors import PivotalError
from pivotal.models.edits import dense
from pivotal.problem.problem import Problem
from pivotal.records.intervention import Intervention
from pivotal.searches.base import (
    Attempt,
    Checkpoint,
    Discovery,
    Progress,
    Search,
    interventions_of,
    most_units,
    require_least,
)
from pivotal.searches.choose_then_fit import Selection
from pivotal.searches.tools.swaps import Exchanger, Walk, masks_and_values, state_of


@dataclass(frozen=True)
class Exchange(Selection):
    """Swap one unit of the set for one outside it and refit the values, until no swap lowers the loss."""

    name: ClassVar[str] = "exchange"
    summary: ClassVar[str] = (
        "local search: swap single units of another search's result while that lowers the loss"
    )
    presets: ClassVar[dict[str, dict[str, object]]] = {
        "exact": {"candidates": 0},
        "best": {"start": "attribution+greedy+learned"},
    }

    start: str = "attribution+greedy"
    """Where to begin: a search, the best of several on training pairs (joined by +), or an intervention's folder."""
    candidates: int = 24
    """Replacements scored by masked runs for each unit: those with the highest first-order gain. 0 scores all."""
    points: int = 6
    """Number of values at which each candidate is scored in each direction."""
    sample: int = 64
    """Distinct prefixes on which swaps are scored; each run draws its own. 0 uses all."""
    finalists: int = 5
    """Swaps per round whose values are fitted. The best of them is made."""
    polish: int = 40
    """Updates of the values of each finalist."""
    rounds: int = 10
    """Maximum number of swaps."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_least(self, candidates=0, points=3, sample=0, finalists=1, polish=1, rounds=1)

    def check_there(self) -> None:
        self._start()

    def start_fingerprint(self) -> str | None:
        start = self._start()
        return start.fingerprint() if isinstance(start, Intervention) else None

    def check(self, problem: Problem, runs: int, seed: int) -> None:
        super().check(problem, runs, seed)
        start = self._start()
        if isinstance(start, Search):
            start.check(problem, runs, seed)
        else:
            self._check_start(start, problem)

    def _solve(self, problem: Problem, attempt: Attempt) -> Discovery:
        state = attempt.load()
        if state is None:
            begun = [dense(i, problem.space, problem.model.device) for i in self._begun(problem, attempt)]
        else:
            begun = [(walk["mask"], walk["values"]) for walk in state["walks"]]
        mask, values = (torch.cat(part) for part in zip(*begun, strict=True))

        def between(round_: int, walks: list[Walk]) -> None:
            scores = [float(walk.here.score[0]) for walk in walks]
            units = [float(walk.here.mask.any(1).sum()) for walk in walks]
            attempt.report(Progress("exchange", round_, self.rounds, scores, units, []))
            attempt.between_steps(partial(_state, problem, round_, walks))

        walks = self._exchanger.improve(
            problem, mask.bool(), values, attempt.seed, between=between, resumed=state
        )
        return self.conclude(problem, *masks_and_values(walks), attempt)

    def _begun(self, problem: Problem, attempt: Attempt) -> Sequence[Intervention]:
        """The intervention that each run starts from."""
        start = self._start()
        if isinstance(start, Intervention):
            return (start,) * attempt.runs
        stop = None if attempt.checkpoint is None else _StopOnly(attempt.checkpoint)
        return start._solve(problem, replace(attempt, checkpoint=stop)).interventions

    @property
    def _exchanger(self) -> Exchanger:
        shared = ("candidates", "points", "sample", "finalists", "polish", "batch", "rounds")
        return Exchanger(self.terms, **{name: getattr(self, name) for name in shared})

    def _start(self) -> Search | Intervention:
        """The search to start from, with the settings of this search that it shares, or the intervention."""
        from pivotal.searches import SEARCHES

        if self.start not in SEARCHES and Path(self.start).is_dir():
            return Intervention.load(Path(self.start))
        searches = tuple(self._search(name.strip()) for name in self.start.split("+"))
        return searches[0] if len(searches) == 1 else BestOf(searches)

    def _search(self, name: str) -> Search:
        from pivotal.options import build
        from pivotal.searches import SEARCHES

        if name == self.name:
            raise PivotalError(
                f"An exchange starts from another search, but start is {self.start!r}. Name another."
            )
        cls = SEARCHES.get(name)
        shared = {f.name for f in fields(Selection)} - {"refit"}
        return build(cls, {f.name: getattr(self, f.name) for f in fields(cls) if f.name in shared})  # type: ignore[arg-type]

    def _check_start(self, start: Intervention, problem: Problem) -> None:
        start.check_model(problem.model.name, problem.model.fingerprint())
        if start.steps != problem.steps or start.directions != problem.labels:
            raise PivotalError(
                f"An exchange must start from an intervention for the same question, but the intervention in "
                f"{self.start} is for {start.steps} step and {' / '.join(start.directions)}. Choose the same steps "
                "and labels."
            )
        if len(start) > (most := most_units(self.max_units, problem)):
            raise PivotalError(
                f"An exchange keeps the number of units, but the intervention in {self.start} has {len(start)} units "
                f"and max_units is {most}. Raise max_units."
            )


def _state(problem: Problem, round_: int, walks: list[Walk]) -> dict[str, Any]:
    return {"interventions": interventions_of(problem, *masks_and_values(walks)), **state_of(round_, walks)}


@dataclass(frozen=True)
class _StopOnly:
    """A checkpoint that can stop the search to start from but does not keep its state."""

    checkpoint: Checkpoint

    def load(self) -> None:
        return None

    def save(self, state: dict[str, Any]) -> None:
        pass

    def between_steps(self, state: Callable[[], dict[str, Any]] | None = None) -> None:
        self.checkpoint.between_steps()


@dataclass(frozen=True)
class BestOf(Search):
    """Run every search and keep the best result on training pairs. The cost is that of all searches.

    All searches must minimise the same loss, so that their scores can be compared. This search is not in the registry:
    `start` of the search `exchange` makes one from several names.
    """

    searches: tuple[Search, ...]

    def check(self, problem: Problem, runs: int, seed: int) -> None:
        for search in self.searches:
            search.check(problem, runs, seed)

    def _solve(self, problem: Problem, attempt: Attempt) -> Discovery:
        return _best([search._solve(problem, attempt) for search in self.searches])


def _best(found: Sequence[Discovery]) -> Discovery:
    runs = range(len(found[0].interventions))
    best = [min(found, key=lambda one, r=run: one.train_score[r]) for run in runs]  # type: ignore[misc]
    return Discovery(
        tuple(one.interventions[run] for run, one in zip(runs, best, strict=True)),
        tuple(one.train_score[run] for run, one in zip(runs, best, strict=True)),
        tuple(one.stages[run] for run, one in zip(runs, best, strict=True)),
    )
