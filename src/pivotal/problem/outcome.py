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

    def flipped(self) -> Bool[Tensor, "runs examples"]:
        return self.log_ratio < 0
