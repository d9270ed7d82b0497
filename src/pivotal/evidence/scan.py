"""Find small sets that might do as well as a larger one: score many sets briefly, then the best ones more closely."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.models.edits import spread
from pivotal.problem.objective import Terms
from pivotal.problem.problem import Problem
from pivotal.records.certificate import Effort, Look
from pivotal.searches.tools.trials import (
    Scores,
    ends_of,
    finalists,
    first_order,
    grid_of,
    placed,
    places_of,
    score_runs,
    screened,
)
from pivotal.units import UnitSpace

_MOST_PAIRS = 2_000_000
_BRIEF, _BRIEFER = 32, 16
"""Number of prefixes of the first look: for single units and promising pairs, and for all pairs."""
_AGAIN = 4
"""Number of sets that are scored again for each set that is fitted."""
_PAIRS_AGAIN = 20_000

Tell = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Tried:
    """Sets of units, each at the best of its trial values. Each direction has its own best value."""

    units: Int[Tensor, "sets k"]
    grid: Float[Tensor, "points directions coordinates"]
    point: Int[Tensor, "sets directions k"]
    """The index of the best value in the grid."""
    score: Float[Tensor, " sets"]
    accuracy: Float[Tensor, " sets"]
    looks: tuple[Look, ...]
    """The looks that led to these sets."""

    def best(self, n: int) -> Tried:
        chosen = finalists(self.score, self.accuracy, min(n, len(self.units)))
        units, point = self.units[chosen], self.point[chosen]
        return Tried(units, self.grid, point, self.score[chosen], self.accuracy[chosen], self.looks)


class Scan:
    """Scores all single units, and pairs of units."""

    def __init__(self, train: Problem, terms: Terms, effort: Effort, seed: int, tell: Tell) -> None:
        self._train, self._terms, self._effort, self._seed, self._tell = train, terms, effort, seed, tell
        self._grid = grid_of(train, effort.points)

    def check(self) -> None:
        """Raise PivotalError if there are too many pairs to try all of them."""
        units = len(self._train.space)
        if self._effort.pairs == "all" and units * (units - 1) // 2 > _MOST_PAIRS:
            raise PivotalError(
                f"At most {_MOST_PAIRS:,} pairs of units can all be tried, but {units:,} units make "
                f"{units * (units - 1) // 2:,}. Use pairs screened, or fewer sites."
            )

    def singles(self) -> Tried:
        """Score all single units at a few values, then the best of them at more values."""
        device = self._grid.device
        everyone = torch.arange(len(self._train.space), device=device)[:, None]
        brief = self._look("single units", everyone, _BRIEF, grid_of(self._train, 3))
        close = self._again("single units again", brief, self._kept, self._effort.sample, self._grid)
        known = torch.full((len(everyone), len(self._train.labels)), -1, device=device)
        known[close.units[:, 0]] = close.point[..., 0]
        self._alone: Float[Tensor, "directions coordinates"] = torch.where(
            spread(self._train.space, known.T) >= 0,
            self._at(close.grid, known.clamp(0)),
            self._at(brief.grid, brief.point[..., 0]),
        )
        self._ranked: Int[Tensor, " units"] = close.units[close.score.argsort(), 0]
        return close.best(self._effort.finalists)

    def pairs(self) -> Tried:
        """Score all pairs, or the best single units with promising partners. `singles` must be called first.

        Each unit is tried at its best value alone and at the farther end of its range. The last look also tries its
        mean under the target label.
        """
        two = torch.stack([self._alone, farther_end(self._train.space, self._alone, self._grid)])
        three = torch.cat([two, self._grid[-1:]])
        if self._effort.pairs == "all":
            units = len(self._train.space)
            everyone = torch.triu_indices(units, units, 1, device=self._grid.device).T
            tried = self._look("pairs", everyone, _BRIEFER, two)
            tried = self._again("pairs again", tried, _PAIRS_AGAIN, _BRIEF, three)
        else:
            tried = self._look("pairs", self._promising(), _BRIEF, two)
        closer = self._again("pairs again", tried, self._kept, self._effort.sample, three)
        return closer.best(self._effort.finalists)

    def _promising(self) -> Int[Tensor, "sets 2"]:
        """Each of the best single units with the partners that have the highest first-order gain."""
        first = self._ranked[: self._effort.first]
        shape = (len(first), len(self._train.labels), len(self._train.space))
        mask = torch.zeros(shape, dtype=torch.bool, device=first.device)
        mask[torch.arange(len(first)), :, first] = True
        values = self._alone.expand(len(first), -1, -1)
        sample = self._train.sample(self._effort.sample, self._seed)
        gain = first_order(sample, self._terms, self._price.expand(len(first), -1), mask, values, self._grid)
        partners = screened(gain, self._effort.candidates)
        pairs = torch.stack([first[:, None].expand_as(partners), partners], -1).flatten(0, 1)
        return pairs.sort(1).values.unique(dim=0)  # a pair may come from either of its units

    def _again(self, phase: str, tried: Tried, keep: int, prefixes: int, grid: Tensor) -> Tried:
        """Score the best of the tried sets more closely."""
        closer = self._look(phase, tried.best(keep).units, prefixes, grid)
        return replace(closer, looks=tried.looks + closer.looks)

    @torch.no_grad()
    def _look(
        self,
        phase: str,
        units: Int[Tensor, "sets k"],
        prefixes: int,
        grid: Float[Tensor, "points directions coordinates"],
    ) -> Tried:
        """Score every set with all combinations of the values of the grid."""
        sample = self._train.sample(min(prefixes, self._effort.sample or prefixes), self._seed)
        points, directions, _ = grid.shape
        k, device = units.shape[1], units.device
        combinations = torch.cartesian_prod(*[torch.arange(points, device=device)] * k).view(-1, k)
        parts = []
        size = max(1, sample.runs_at_once() // len(combinations))
        for start, some in zip(range(0, len(units), size), units.split(size), strict=True):
            self._tell(phase, start, len(units))
            every = some.repeat_interleave(len(combinations), 0)
            point = combinations.repeat(len(some), 1)[:, None].expand(-1, directions, -1)
            mask, values = placed(sample.space, every, grid, point)
            scores = score_runs(sample, self._terms, self._price.expand(len(mask), -1), mask, values)
            shape = (len(some), len(combinations), directions)
            best, where = Scores(scores.score.view(shape), scores.accuracy.view(shape)).best(1)
            parts.append((best.score.sum(-1), best.accuracy.sum(-1), combinations[where]))
        score, accuracy, point = (torch.cat(part) for part in zip(*parts, strict=True))
        look = Look(len(units), len(np.unique(sample.examples.leaves)), points)
        return Tried(units, grid, point, score, accuracy, (look,))

    def _at(
        self, grid: Tensor, point: Int[Tensor, "units directions"]
    ) -> Float[Tensor, "directions coordinates"]:
        """The values of all units. Each unit has its own point of the grid."""
        return grid.gather(0, spread(self._train.space, point.T)[None])[0]

    @property
    def _kept(self) -> int:
        """The number of sets in the last look: enough for the fits and for the pairs."""
        return max(_AGAIN * self._effort.finalists, self._effort.first)

    @property
    def _price(self) -> Float[Tensor, " bounds"]:
        return self._terms.first_price(self._train)


def farther_end(
    space: UnitSpace,
    values: Float[Tensor, "directions coordinates"],
    grid: Float[Tensor, "points directions coordinates"],
) -> Float[Tensor, "directions coordinates"]:
    """The end of the grid that is farther from the values of each unit. A unit uses one end for all coordinates."""
    low, high = ends_of(grid)
    places = places_of(space, values.device)
    from_low, from_high = ((values - end).abs()[:, places].sum(-1) for end in (low, high))
    return torch.where(spread(space, from_low > from_high), low, high)
