"""Several searches as one: for each run, what the best of them found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from pivotal.problem.problem import Problem
from pivotal.searches.base import Checkpoint, Cost, Discovery, Point, Progress, Search


@dataclass(frozen=True)
class BestOf(Search):
    """The best is chosen on training pairs, and all of them are paid for. It is no search that can be named: whoever
    wants one names its parts. They must share their loss, or their scores could not be compared."""

    searches: tuple[Search, ...]

    def check(self, problem: Problem, runs: int, seed: int) -> None:
        for search in self.searches:
            search.check(problem, runs, seed)

    def _solve(
        self,
        problem: Problem,
        *,
        runs: int,
        seed: int,
        progress: Callable[[Progress], None] | None,
        checkpoint: Checkpoint | None,
    ) -> Discovery:
        return _best(
            [
                search.solve(problem, runs=runs, seed=seed, progress=progress, checkpoint=checkpoint)
                for search in self.searches
            ]
        )

    def frontier(
        self,
        problem: Problem,
        sizes: Sequence[int],
        *,
        runs: int = 1,
        seed: int = 0,
        progress: Callable[[Progress], None] | None = None,
    ) -> Iterator[Point]:
        each = [s.frontier(problem, sizes, runs=runs, seed=seed, progress=progress) for s in self.searches]
        for points in zip(*each, strict=True):
            cost = sum((point.cost for point in points), Cost())
            yield Point(points[0].size, _best([point.found for point in points]), cost)

    def check_frontier(self) -> None:
        for search in self.searches:
            search.check_frontier()

    def within(self, problem: Problem, runs: int, nodes: int) -> BestOf:
        """The same share for each."""
        share = nodes // len(self.searches)
        return replace(self, searches=tuple(s.within(problem, runs, share) for s in self.searches))


def _best(found: Sequence[Discovery]) -> Discovery:
    runs = range(len(found[0].interventions))
    best = [min(found, key=lambda one, r=run: one.train_score[r]) for run in runs]  # type: ignore[misc]
    return Discovery(
        tuple(one.interventions[run] for run, one in zip(runs, best, strict=True)),
        tuple(one.train_score[run] for run, one in zip(runs, best, strict=True)),
        tuple(one.stages[run] for run, one in zip(runs, best, strict=True)),
    )
