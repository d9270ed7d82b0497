"""Small sets that might do as well as a larger one: many are tried briefly, the best of them more closely."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pivotal.certificate import Effort, Look
from pivotal.errors import PivotalError
from pivotal.objective import Terms
from pivotal.problem import Problem
from pivotal.trials import Scores, finalists, first_order, grid_of, score_sets, screened

_MOST_PAIRS = 2_000_000
_BRIEF, _BRIEFER = 32, 16
"""Prefixes of a first look: at single units and at promising pairs, and at all pairs that there are."""
_AGAIN = 8
"""Sets that are looked at once more, for each that is fitted in the end."""
_PAIRS_AGAIN = 20_000

Tell = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Tried:
    """Sets at the best of the values that were tried, chosen for each direction by itself."""

    units: Int[Tensor, "sets k"]
    score: Float[Tensor, " sets"]
    accuracy: Float[Tensor, " sets"]
    values: Float[Tensor, "sets directions k"]
    looks: tuple[Look, ...]
    """What was done to get here."""

    def best(self, n: int) -> Tried:
        chosen = finalists(self.score, self.accuracy, min(n, len(self.units)))
        return Tried(
            self.units[chosen], self.score[chosen], self.accuracy[chosen], self.values[chosen], self.looks
        )


@dataclass(frozen=True)
class Round:
    """One look: on so many prefixes, every unit at each of these values."""

    prefixes: int
    grid: Float[Tensor, "points directions units"]


class Scan:
    """Tries all single units, and pairs of them."""

    def __init__(self, train: Problem, terms: Terms, effort: Effort, seed: int, tell: Tell) -> None:
        self._train, self._terms, self._effort, self._seed, self._tell = train, terms, effort, seed, tell
        self._grid = grid_of(train, effort.points)

    def check(self) -> None:
        """PivotalError if there are too many pairs to try them all."""
        units = len(self._train.space)
        if self._effort.pairs == "all" and units * (units - 1) // 2 > _MOST_PAIRS:
            raise PivotalError(
                f"Every pair can be tried where there are at most {_MOST_PAIRS:,} of them, but {units:,} units make "
                f"{units * (units - 1) // 2:,}. Use pairs screened, or fewer sites."
            )

    def singles(self) -> Tried:
        """All single units at a few values, the best of them again at more."""
        device = self._grid.device
        everyone = torch.arange(len(self._train.space), device=device)[:, None]
        brief = self._look("single units", everyone, self._brief(_BRIEF, grid_of(self._train, 3)))
        close = self._narrow("single units", brief, [(self._again, self._close(self._grid))])
        self._alone: Float[Tensor, "directions units"] = brief.values[..., 0].T.clone()
        self._alone[:, close.units[:, 0]] = close.values[..., 0].T
        self._ranked: Int[Tensor, " units"] = close.units[close.score.argsort(), 0]
        return close.best(self._effort.smaller)

    def pairs(self) -> Tried:
        """Every pair that there is, or the best single units with promising partners; `singles` comes first. Each unit
        is tried at what served it best alone and at the farther end of its reach, in the end at its natural value too.
        """
        low, high = self._grid.amin(0), self._grid.amax(0)
        farther = torch.where(self._alone - low > high - self._alone, low, high)
        two = torch.stack([self._alone, farther])
        three = torch.cat([two, self._grid[-1:]])
        if self._effort.pairs == "all":
            units = len(self._train.space)
            everyone = torch.triu_indices(units, units, 1, device=self._grid.device).T
            brief = self._look("pairs", everyone, self._brief(_BRIEFER, two))
            closer = [(_PAIRS_AGAIN, self._brief(_BRIEF, three)), (self._again, self._close(three))]
        else:
            brief = self._look("pairs", self._promising(), self._brief(_BRIEF, two))
            closer = [(self._again, self._close(three))]
        return self._narrow("pairs", brief, closer).best(self._effort.smaller)

    def _promising(self) -> Int[Tensor, "sets 2"]:
        """Each of the best single units with the partners of the highest first-order gain beside it."""
        first = self._ranked[: self._effort.first]
        mask = torch.zeros(len(first), *self._alone.shape, dtype=torch.bool, device=first.device)
        mask[torch.arange(len(first)), :, first] = True
        values = self._alone.expand(mask.shape)
        sample = self._train.sample(self._effort.sample, self._seed)
        gain = first_order(sample, self._terms, self._price.expand(len(first)), mask, values, self._grid)
        partners = screened(gain, self._effort.candidates)
        pairs = torch.stack([first[:, None].expand_as(partners), partners], -1).flatten(0, 1)
        return pairs.sort(1).values.unique(dim=0)  # a pair may come from either of its units

    def _narrow(self, phase: str, tried: Tried, rounds: Sequence[tuple[int, Round]]) -> Tried:
        """Look again at the best, fewer and more closely each time."""
        for keep, closer in rounds:
            again = self._look(phase, tried.best(keep).units, closer)
            tried = Tried(again.units, again.score, again.accuracy, again.values, tried.looks + again.looks)
        return tried

    def _look(self, phase: str, units: Int[Tensor, "sets k"], how: Round) -> Tried:
        """Every set with each of its units at each value of the grid."""
        sample, (points, directions, _) = self._train.sample(how.prefixes, self._seed), how.grid.shape
        k, device = units.shape[1], units.device
        combinations = torch.cartesian_prod(*[torch.arange(points, device=device)] * k).view(-1, k)
        direction = torch.arange(directions, device=device)
        parts = []
        size = max(1, sample.runs_at_once() // len(combinations))
        for start, some in zip(range(0, len(units), size), units.split(size), strict=True):
            self._tell(phase, start, len(units))
            at = how.grid[combinations[None, :, None], direction[:, None], some[:, None, None]]
            every = some[:, None].expand(-1, len(combinations), -1)
            scores = score_sets(sample, self._terms, self._price, every.flatten(0, 1), at.flatten(0, 1))
            shape = (len(some), len(combinations), directions)
            best, where = Scores(scores.score.view(shape), scores.accuracy.view(shape)).best(1)
            parts.append((best.score.sum(-1), best.accuracy.sum(-1), where))
        score, accuracy, where = (torch.cat(part) for part in zip(*parts, strict=True))
        values = how.grid[combinations[where], direction[:, None], units[:, None]]
        prefixes = len(np.unique(sample.tree.leaf))
        return Tried(units, score, accuracy, values, (Look(len(units), prefixes, points),))

    def _brief(self, prefixes: int, grid: Float[Tensor, "points directions units"]) -> Round:
        return Round(min(prefixes, self._effort.sample or prefixes), grid)

    def _close(self, grid: Float[Tensor, "points directions units"]) -> Round:
        return Round(self._effort.sample, grid)

    @property
    def _again(self) -> int:
        return max(_AGAIN * self._effort.smaller, self._effort.first)

    @property
    def _price(self) -> Float[Tensor, ""]:
        return torch.full((), self._terms.first_price, device=self._grid.device)
