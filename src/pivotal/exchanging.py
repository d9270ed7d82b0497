"""One unit out, another in: the neighbours of a set, and the way downhill among them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pivotal.objective import Terms
from pivotal.problem import Problem
from pivotal.refit import Fitted, Refit
from pivotal.trials import first_order, grid_of, score_additions, screened


@dataclass(frozen=True)
class Swaps:
    """Neighbours of a set, best first: the scores are those of masked runs at the best values of a grid."""

    out: Int[Tensor, " swaps"]
    in_: Int[Tensor, " swaps"]
    score: Float[Tensor, " swaps"]
    accuracy: Float[Tensor, " swaps"]
    values: Float[Tensor, "swaps directions"]
    """Of the unit that came in; the others keep theirs."""

    def __len__(self) -> int:
        return len(self.out)

    def applied(
        self, which: int, mask: Bool[Tensor, "directions units"], values: Float[Tensor, "directions units"]
    ) -> tuple[Bool[Tensor, "directions units"], Float[Tensor, "directions units"]]:
        """Mask and values after a swap; the new unit acts in the directions in which the old one did."""
        out, in_ = int(self.out[which]), int(self.in_[which])
        mask, values = mask.clone(), values.clone()
        mask[:, in_], values[:, in_] = mask[:, out], self.values[which]
        mask[:, out] = False
        return mask, values


def swaps_of(
    problem: Problem,
    terms: Terms,
    price: Float[Tensor, ""],
    mask: Bool[Tensor, "directions units"],
    values: Float[Tensor, "directions units"],
    grid: Float[Tensor, "points directions units"],
    choose: Callable[[Float[Tensor, "sets units"]], Int[Tensor, "sets candidates"]],
) -> Swaps:
    """Score the swaps of each unit of the set with the candidates that `choose` picks by their first-order gains."""
    units = mask.any(0).nonzero()[:, 0]
    without = mask.repeat(len(units), 1, 1)
    without[torch.arange(len(units)), :, units] = False
    kept = values.expand(len(units), -1, -1)
    prices = price.expand(len(units))
    gain = first_order(problem, terms, prices, without, kept, grid)
    gain[torch.arange(len(units)), units] = -torch.inf
    tried = choose(gain)
    found = score_additions(problem, terms, prices, without, kept, tried, grid, mask[:, units].T)
    order = found.score.flatten().argsort()
    return Swaps(
        units[:, None].expand_as(tried).flatten()[order],
        tried.flatten()[order],
        found.score.flatten()[order],
        found.accuracy.flatten()[order],
        found.values.flatten(0, 1)[order],
    )


@dataclass(frozen=True)
class Improved:
    """The end of an exchange."""

    mask: Bool[Tensor, "directions units"]
    values: Float[Tensor, "directions units"]
    swapped: list[tuple[int, int]] = field(default_factory=list)
    """(out, in) of every swap that was made."""


@dataclass(frozen=True)
class Exchanger:
    """Swap one unit at a time while that lowers the loss, values fitted to each of the promising neighbours."""

    terms: Terms
    candidates: int = 32
    points: int = 6
    sample: int = 96
    finalists: int = 6
    polish: int = 40
    batch: int = 128
    rounds: int = 10
    gain: float = 0.002
    """A swap must lower the score by this share."""

    def improve(
        self,
        problem: Problem,
        mask: Bool[Tensor, "directions units"],
        values: Float[Tensor, "directions units"],
        seed: int,
        tell: Callable[[int, float], None] = lambda swaps, score: None,
    ) -> Improved:
        sample, grid = problem.sample(self.sample, seed), grid_of(problem, self.points)
        refit = Refit(self.terms, self.polish, batch=self.batch)
        here = refit.fit(problem, mask[None].float(), values[None], seed=seed)
        swapped: list[tuple[int, int]] = []
        for _ in range(self.rounds):
            tell(len(swapped), float(here.score[0]))
            swaps = swaps_of(
                sample,
                self.terms,
                here.price[0],
                mask,
                here.values[0],
                grid,
                lambda g: screened(g, self.candidates),
            )
            tried = [swaps.applied(i, mask, here.values[0]) for i in range(min(self.finalists, len(swaps)))]
            masks = torch.stack([m for m, _ in tried])
            fitted = refit.fit(problem, masks.float(), torch.stack([v for _, v in tried]), seed=seed)
            best = int(fitted.score.argmin())
            if not fitted.score[best] < here.score[0] - self.gain * here.score[0].abs():
                break
            swapped.append((int(swaps.out[best]), int(swaps.in_[best])))
            mask = masks[best]
            here = Fitted(fitted.values[[best]], fitted.price[[best]], fitted.score[[best]])
        return Improved(mask, here.values[0], swapped)
