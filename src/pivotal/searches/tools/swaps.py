"""Swaps of one unit of a set for one outside it, and local search by such swaps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pivotal.problem.objective import Terms
from pivotal.problem.problem import Problem
from pivotal.searches.tools import Grid, HardMasks, RunValues, SetMask, SetValues
from pivotal.searches.tools.refit import Fitted, Proposed, Refit
from pivotal.searches.tools.trials import (
    finalists,
    first_order,
    grid_of,
    places_of,
    score_additions,
    screened,
)


@dataclass(frozen=True)
class Swaps:
    """The swaps of a set, the best first. Scores are those of masked runs at the best values of a grid."""

    out: Int[Tensor, " swaps"]
    in_: Int[Tensor, " swaps"]
    score: Float[Tensor, " swaps"]
    accuracy: Float[Tensor, " swaps"]
    values: Float[Tensor, "swaps directions size"]
    """The values of the new unit. The other units keep their values."""
    places: Int[Tensor, "swaps size"]
    """The indices of the new unit's coordinates."""

    def __len__(self) -> int:
        return len(self.out)

    def finalists(self, n: int) -> list[int]:
        """The indices of the swaps whose values should be fitted."""
        return finalists(self.score, self.accuracy, min(n, len(self))).tolist()

    def applied(self, which: int, mask: SetMask, values: SetValues) -> tuple[SetMask, SetValues]:
        """Mask and values after a swap. The new unit is active in the directions of the old unit."""
        out, in_ = int(self.out[which]), int(self.in_[which])
        mask, values = mask.clone(), values.clone()
        mask[:, in_], values[:, self.places[which]] = mask[:, out], self.values[which]
        mask[:, out] = False
        return mask, values


def swaps_of(
    problem: Problem,
    terms: Terms,
    price: Float[Tensor, " bounds"],
    mask: SetMask,
    values: SetValues,
    grid: Grid,
    choose: Callable[[Float[Tensor, "runs units"]], Int[Tensor, "runs candidates"]],
) -> Swaps:
    """Score the swaps of each unit of the set. `choose` selects the candidates by their first-order gains."""
    units = mask.any(0).nonzero()[:, 0]
    without = mask.repeat(len(units), 1, 1)
    without[torch.arange(len(units)), :, units] = False
    kept = values.expand(len(units), -1, -1)
    prices = price.expand(len(units), -1)
    acting = mask[:, units].T
    gain = first_order(problem, terms, prices, without, kept, grid, acting)
    gain[torch.arange(len(units)), units] = -torch.inf
    tried = choose(gain)
    found = score_additions(problem, terms, prices, without, kept, tried, grid, acting)
    order = found.score.flatten().argsort()
    in_ = tried.flatten()[order]
    return Swaps(
        units[:, None].expand_as(tried).flatten()[order],
        in_,
        found.score.flatten()[order],
        found.accuracy.flatten()[order],
        found.values.flatten(0, 1)[order],
        places_of(problem.space, in_.device)[in_],
    )


@dataclass(frozen=True)
class Exchanger:
    """Swap one unit at a time while that lowers the loss. The values of the best swaps are fitted first."""

    terms: Terms
    candidates: int = 24
    points: int = 6
    sample: int = 64
    finalists: int = 5
    polish: int = 40
    batch: int = 128
    rounds: int = 10
    gain: float = 0.002
    """A swap must lower the score by at least this share."""

    def improve(
        self,
        problem: Problem,
        mask: HardMasks,
        values: RunValues,
        seed: int,
        *,
        between: Callable[[int, list[Walk]], None] = lambda round_, walks: None,
        resumed: dict[str, Any] | None = None,
    ) -> list[Walk]:
        """Improve the sets of all runs. Run r scores swaps on its own sample; all runs share one fit per round.

        `between` is called before every round, to report progress, save the state (`state_of`) or stop. `resumed` is a
        saved state to resume from.
        """
        grid = grid_of(problem, self.points)
        refit = Refit(self.terms, self.polish, batch=self.batch)
        samples = [problem.sample(self.sample, seed + r) for r in range(len(mask))]
        if resumed is None:
            fitted = refit.fit(problem, mask.float(), values, seed=seed)
            walks = [Walk(self, sample, grid, fitted.part([r])) for r, sample in enumerate(samples)]
        else:
            saved = zip(samples, resumed["walks"], strict=True)
            walks = [Walk.restored(self, sample, grid, state) for sample, state in saved]
        for round_ in range(0 if resumed is None else resumed["round"], self.rounds):
            between(round_, walks)
            going = [walk for walk in walks if not walk.over]
            if not going:
                break
            proposed = [walk.propose() for walk in going]
            tried = refit.fit_together(problem, proposed, seed=seed)
            for walk, own in zip(going, tried, strict=True):
                walk.step(own)
        return walks


def state_of(round_: int, walks: list[Walk]) -> dict[str, Any]:
    return {"round": round_, "walks": [walk.state() for walk in walks]}


def masks_and_values(walks: list[Walk]) -> Proposed:
    """The current sets of all runs."""
    return torch.cat([walk.here.mask for walk in walks]), torch.cat([walk.here.values for walk in walks])


class Walk:
    """The local search of one run."""

    def __init__(self, exchanger: Exchanger, sample: Problem, grid: Grid, here: Fitted) -> None:
        self._exchanger, self._sample, self._grid = exchanger, sample, grid
        self.here = here
        """The current set."""
        self.over = bool(here.mask.any(1).all())
        """Whether the search has ended. A set of all units has no swaps."""

    def state(self) -> dict[str, Any]:
        return {**self.here.state(), "over": self.over}

    @staticmethod
    def restored(exchanger: Exchanger, sample: Problem, grid: Tensor, state: dict[str, Any]) -> Walk:
        walk = Walk(exchanger, sample, grid, Fitted.restored(state, grid.device))
        walk.over = state["over"]
        return walk

    def propose(self) -> Proposed:
        """The sets after each of the best swaps."""
        exchanger, mask, values = self._exchanger, self.here.mask[0], self.here.values[0]
        swaps = swaps_of(
            self._sample,
            exchanger.terms,
            self.here.price[0],
            mask,
            values,
            self._grid,
            lambda gain: screened(gain, exchanger.candidates, at_least=4 * exchanger.candidates),
        )
        tried = [swaps.applied(i, mask, values) for i in swaps.finalists(exchanger.finalists)]
        return torch.stack([mask for mask, _ in tried]), torch.stack([at for _, at in tried])

    def step(self, fitted: Fitted) -> None:
        """Make the best of the proposed swaps if it lowers the score enough. Otherwise end the search."""
        best = int(fitted.score.argmin())
        least = self._exchanger.gain * self.here.score[0].abs()
        if fitted.score[best] < self.here.score[0] - least:
            self.here = fitted.part([best])
        else:
            self.over = True
