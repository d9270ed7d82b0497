"""Local search: from what another search found, swap units one by one while that helps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.models.edits import dense
from pivotal.problem.problem import Problem
from pivotal.records.intervention import Intervention
from pivotal.searches.base import (
    Checkpoint,
    Clock,
    Discovery,
    Point,
    Progress,
    Search,
    interventions_of,
    most_units,
    require_least,
)
from pivotal.searches.best_of import BestOf
from pivotal.searches.selection import Selection
from pivotal.searches.tools.swaps import Exchanger, Walk, state_of


@dataclass(frozen=True)
class Exchange(Selection):
    """One unit out and one in, as long as that lowers the loss; values refitted, until no swap helps."""

    name: ClassVar[str] = "exchange"
    summary: ClassVar[str] = "swap one unit at a time while that helps, from the result of another search"
    presets: ClassVar[dict[str, dict[str, object]]] = {
        "exact": {"candidates": 0},
        "best": {"start": "attribution+greedy+learned"},
    }

    start: str = "attribution+greedy"
    """Where to begin: a search, the best of several on training pairs (joined by +), or an intervention's folder."""
    candidates: int = 24
    """Units scored by masked runs in the place of each unit, those of the highest first-order gain; 0 scores all."""
    points: int = 6
    """Values at which a candidate is scored in each direction."""
    sample: int = 64
    """Distinct prefixes on which swaps are scored; each run draws its own. 0 takes all."""
    finalists: int = 5
    """Swaps of a round whose values are fitted before the best is made."""
    polish: int = 40
    """Updates of the values of each finalist."""
    rounds: int = 10
    """Swaps at most."""
    start_nodes: int | None = None
    """Node evaluations that the search to start from may take, about; by default what its own settings take."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_least(self, candidates=0, points=3, sample=0, finalists=1, polish=1, rounds=1)

    def check_there(self) -> None:
        self._start()

    def check(self, problem: Problem, runs: int, seed: int) -> None:
        super().check(problem, runs, seed)
        start = self._start()
        if isinstance(start, Search):
            start.check(problem, runs, seed)
        else:
            self._check_start(start, problem)

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
        state = None if checkpoint is None else checkpoint.load()
        if state is not None:
            return self._exchange(problem, state["interventions"], seed, progress, checkpoint, state)
        start = self._start()
        if isinstance(start, Search):
            funded = self._funded(start, problem, runs)
            stop = None if checkpoint is None else _StopOnly(checkpoint)
            begun = funded.solve(
                problem, runs=runs, seed=seed, progress=progress, checkpoint=stop
            ).interventions
        else:
            begun = (start,) * runs
        return self._exchange(problem, begun, seed, progress, checkpoint)

    def frontier(
        self,
        problem: Problem,
        sizes: Sequence[int],
        *,
        runs: int = 1,
        seed: int = 0,
        progress: Callable[[Progress], None] | None = None,
    ) -> Iterator[Point]:
        """From what the other search finds at each size."""
        self.check_frontier()
        start = self._start()
        assert isinstance(start, Search)
        for point in self._funded(start, problem, runs).frontier(
            problem, sizes, runs=runs, seed=seed, progress=progress
        ):
            clock = Clock(problem)
            found = self._exchange(problem, point.found.interventions, seed, progress)
            yield Point(point.size, found, point.cost + clock.read())

    def _exchange(
        self,
        problem: Problem,
        begun: Sequence[Intervention],
        seed: int,
        progress: Callable[[Progress], None] | None,
        checkpoint: Checkpoint | None = None,
        state: dict[str, Any] | None = None,
    ) -> Discovery:
        pairs = [dense(intervention, problem.space, problem.model.device) for intervention in begun]
        mask, values = (torch.cat(part) for part in zip(*pairs, strict=True))

        def between(round_: int, walks: list[Walk]) -> None:
            if progress is not None:
                scores = [float(walk.here.score[0]) for walk in walks]
                units = [float(walk.mask.any(0).sum()) for walk in walks]
                progress(Progress("exchange", round_, self.rounds, scores, units, []))
            if checkpoint is not None:
                checkpoint.between_steps(partial(_state, problem, round_, walks))

        walks = self._exchanger.improve(problem, mask.bool(), values, seed, between=between, resumed=state)
        return self.conclude(problem, *_ends(walks), seed, progress)

    @property
    def _exchanger(self) -> Exchanger:
        return Exchanger(
            self.terms,
            self.candidates,
            self.points,
            self.sample,
            self.finalists,
            self.polish,
            self.batch,
            self.rounds,
        )

    def within(self, problem: Problem, runs: int, nodes: int) -> Exchange:
        """Half for the start, and as many rounds as the rest allows."""
        size = most_units(self.max_units, problem)
        beginning, round_ = self._exchanger.nodes(problem, runs, size)
        left = nodes / 2 - beginning - self.concluding(problem, runs)
        return replace(self, rounds=max(1, min(self.rounds, int(left / round_))), start_nodes=nodes // 2)

    def check_frontier(self) -> None:
        if not isinstance(self._start(), Search):
            raise PivotalError(
                f"A comparison over sizes needs a search to start from, but start is {self.start!r}, an "
                "intervention of one size. Name a search."
            )

    def _funded(self, start: Search, problem: Problem, runs: int) -> Search:
        return start if self.start_nodes is None else start.within(problem, runs, self.start_nodes)

    def _start(self) -> Search | Intervention:
        """The search, with the settings that this one shares with it, or the intervention."""
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
                f"An exchange starts from an intervention for the same question, but that in {self.start} is for "
                f"{start.steps} step and {' / '.join(start.directions)}. Choose the same steps and labels."
            )
        if len(start) > (most := most_units(self.max_units, problem)):
            raise PivotalError(
                f"An exchange keeps the number of units: that in {self.start} has {len(start)}, but max_units is "
                f"{most}. Allow as many."
            )


def _state(problem: Problem, round_: int, walks: list[Walk]) -> dict[str, Any]:
    return {"interventions": interventions_of(problem, *_ends(walks)), **state_of(round_, walks)}


def _ends(walks: list[Walk]) -> tuple[Tensor, Tensor]:
    return torch.stack([walk.mask for walk in walks]), torch.stack([walk.values for walk in walks])


@dataclass(frozen=True)
class _StopOnly:
    """Lets the search to start from be stopped without keeping its state."""

    checkpoint: Checkpoint

    def load(self) -> None:
        return None

    def save(self, state: dict[str, Any]) -> None:
        pass

    def between_steps(self, state: Callable[[], dict[str, Any]] | None = None) -> None:
        self.checkpoint.between_steps()
