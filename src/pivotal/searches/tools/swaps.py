"""Swaps of one unit of a set for one outside it, scored by masked runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pivotal.problem.objective import Terms
from pivotal.problem.problem import Problem
from pivotal.searches.tools import Grid, SetMask, SetValues
from pivotal.searches.tools.trials import finalists, first_order, places_of, score_additions


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
