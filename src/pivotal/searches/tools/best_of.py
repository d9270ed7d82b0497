"""Several searches combined: each run keeps the best of their results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pivotal.problem.problem import Problem
from pivotal.searches.base import Attempt, Cost, Discovery, Point, Search


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

    def _frontier(self, problem: Problem, sizes: Sequence[int], attempt: Attempt) -> Iterator[Point]:
        each = [search._frontier(problem, sizes, attempt) for search in self.searches]
        for points in zip(*each, strict=True):
            cost = sum((point.cost for point in points), Cost())
            yield Point(points[0].size, _best([point.found for point in points]), cost)

    def check_frontier(self) -> None:
        for search in self.searches:
            search.check_frontier()

    def within(self, problem: Problem, runs: int, nodes: int) -> BestOf:
        """Every search gets an equal share."""
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
