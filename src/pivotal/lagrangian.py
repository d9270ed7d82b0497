"""Constraints with multipliers: min over the parameters, max over lambda >= 0, of loss + lambda * violation."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


class Multiplier:
    """The multiplier of one constraint, one number per run, raised by gradient ascent while it is violated."""

    def __init__(self, runs: int, rate: float, largest: float, device: torch.device | str) -> None:
        self.value: Float[Tensor, " runs"] = torch.zeros(runs, device=device)
        self._rate = rate
        self._largest = largest

    def term(self, violation: Float[Tensor, " runs"]) -> Float[Tensor, " runs"]:
        """What the constraint adds to each run's loss."""
        return self.value * violation

    @torch.no_grad()
    def ascend(self, violation: Float[Tensor, " runs"]) -> None:
        self.value.add_(violation, alpha=self._rate).clamp_(0, self._largest)
