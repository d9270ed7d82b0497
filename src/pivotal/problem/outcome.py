"""The result of a masked run, and the count of what it cost."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor


@dataclass
class Work:
    """Counts of node evaluations: a measure of cost that does not depend on the machine."""

    forward: int = 0
    backward: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a masked run."""

    log_ratio: Float[Tensor, "runs examples"]
    """log p(d) / p(t). It is positive if the model still prefers d, the word that the untouched model prefers."""
    states: Float[Tensor, "live runs width"]
    weight: Float[Tensor, " examples"] | None = None
    """The weight of each example in a mean over the examples; None for equal weights."""

    def flipped(self) -> Bool[Tensor, "runs examples"]:
        return self.log_ratio < 0

    def flips(self) -> Float[Tensor, " runs"]:
        """The share of flipped preferences."""
        if self.weight is None:
            return self.flipped().float().mean(1)
        # In double precision, so that runs with the same flips have the same share, whatever the order of a sum.
        return self.mean(self.flipped().double()).float()

    def mean(self, each: Float[Tensor, "runs examples"]) -> Float[Tensor, " runs"]:
        """The mean of a number over the examples."""
        return mean_of(each, self.weight)


def mean_of(
    each: Float[Tensor, "runs examples"], weight: Float[Tensor, " examples"] | None
) -> Float[Tensor, " runs"]:
    """The mean of a number over the examples; without weights, all count the same."""
    return each.mean(1) if weight is None else (each * weight).sum(1)
