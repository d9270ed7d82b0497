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
        mask: Bool[Tensor, "runs directions units"],
        values: Float[Tensor, "runs directions units"],
        seed: int,
        tell: Callable[[int, list[float]], None] = lambda round_, scores: None,
    ) -> list[Improved]:
        """All runs go in step, so that one fit serves the finalists of all; run r scores swaps on its own sample."""
        grid = grid_of(problem, self.points)
        refit = Refit(self.terms, self.polish, batch=self.batch)
        fitted = refit.fit(problem, mask.float(), values, seed=seed)
        walks = [
            _Walk(self, problem.sample(self.sample, seed + r), grid, mask[r], fitted.part([r]))
            for r in range(len(mask))
        ]
        for round_ in range(self.rounds):
            tell(round_, [float(walk.here.score) for walk in walks])
            going = [walk for walk in walks if not walk.over]
            if not going:
                break
            proposed = [walk.propose() for walk in going]
            masks, at = (torch.cat(part) for part in zip(*proposed, strict=True))
            fitted = refit.fit(problem, masks.float(), at, seed=seed)
            start = 0
            for walk, (own, _) in zip(going, proposed, strict=True):
                walk.step(own, fitted.part(slice(start, start + len(own))))
                start += len(own)
        return [Improved(walk.mask, walk.here.values[0], walk.swapped) for walk in walks]


class _Walk:
    """One run on its way downhill."""

    def __init__(
        self,
        exchanger: Exchanger,
        sample: Problem,
        grid: Float[Tensor, "points directions units"],
        mask: Bool[Tensor, "directions units"],
        here: Fitted,
    ) -> None:
        self._exchanger, self._sample, self._grid = exchanger, sample, grid
        self.mask, self.here = mask, here
        self.swapped: list[tuple[int, int]] = []
        self.over = False

    def propose(self) -> tuple[Bool[Tensor, "sets directions units"], Float[Tensor, "sets directions units"]]:
        """The most promising neighbours."""
        exchanger, values = self._exchanger, self.here.values[0]
        self._swaps = swaps_of(
            self._sample,
            exchanger.terms,
            self.here.price[0],
            self.mask,
            values,
            self._grid,
            lambda gain: screened(gain, exchanger.candidates),
        )
        some = range(min(exchanger.finalists, len(self._swaps)))
        tried = [self._swaps.applied(i, self.mask, values) for i in some]
        return torch.stack([mask for mask, _ in tried]), torch.stack([at for _, at in tried])

    def step(self, masks: Bool[Tensor, "sets directions units"], fitted: Fitted) -> None:
        """To the best of them if it is better."""
        best = int(fitted.score.argmin())
        least = self._exchanger.gain * self.here.score[0].abs()
        if not fitted.score[best] < self.here.score[0] - least:
            self.over = True
            return
        self.swapped.append((int(self._swaps.out[best]), int(self._swaps.in_[best])))
        self.mask, self.here = masks[best], fitted.part([best])
