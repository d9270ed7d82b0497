"""Constraints with multipliers: min over the parameters, max over lambda >= 0, of loss + lambda * violation.

Violations are logarithms, log(quantity / bound). A search starts at hundreds of times its bound and ends near it, so
one learning rate must work over that whole range.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

_SMOOTH = 0.9


def shrinking(start: int | float, end: int | float, share: float) -> float:
    """A target that moves from `start` to `end` by a constant factor as `share` goes from 0 to 1."""
    return start * (end / start) ** min(1.0, share)


class Multiplier:
    """The multiplier of one constraint, one number per run. Gradient ascent raises it while the constraint is violated.

    With `damping` the pressure is lambda + damping * violation, as in an augmented Lagrangian, and reacts at once.
    Lambda alone sums up past violations. It would overshoot and switch off units that no update switches on again.
    """

    def __init__(
        self,
        runs: int,
        rate: float,
        *,
        damping: float = 0.0,
        largest: float = 20.0,
        device: torch.device | str = "cpu",
    ) -> None:
        self.value: Float[Tensor, " runs"] = torch.zeros(runs, device=device)
        self._rate = rate
        self._damping = damping
        self._largest = largest

    def term(self, violation: Float[Tensor, " runs"]) -> Float[Tensor, " runs"]:
        """The term that the constraint adds to the loss of each run."""
        return self.pressure(violation) * violation

    @torch.no_grad()
    def pressure(self, violation: Float[Tensor, " runs"]) -> Float[Tensor, " runs"]:
        return (self.value + self._damping * violation).clamp(0, self._largest)

    @torch.no_grad()
    def ascend(self, violation: Float[Tensor, " runs"]) -> None:
        self.value = (self.value + self._rate * violation).clamp(0, self._largest)


class KLConstraint:
    """KL <= bound with a multiplier.

    KL is smoothed over updates, because each update measures it at few positions. The slope is that of KL / bound below
    the bound and that of log KL above it: a large excess does not push in proportion, and a KL near zero is not reduced
    further.
    """

    def __init__(
        self, runs: int, max_kl: float, rate: float, damping: float, device: torch.device | str = "cpu"
    ) -> None:
        self._max = max_kl
        self._multiplier = Multiplier(runs, rate, damping=damping, device=device)
        self._smooth: Float[Tensor, " runs"] | None = None

    def term(self, kl: Float[Tensor, " runs"], slack: float = 1.0) -> Float[Tensor, " runs"]:
        """The term that the constraint adds to the loss of each run. `slack` raises the bound for large masks."""
        bound, now = self._max * slack, kl.detach()
        smooth = self._smoothed(now)
        slope = (kl - now) / smooth.clamp(min=bound)
        return self._multiplier.term(self._excess(smooth, bound) + slope)

    @torch.no_grad()
    def ascend(self, kl: Float[Tensor, " runs"], slack: float = 1.0) -> None:
        self._smooth = self._smoothed(kl.detach())
        self._multiplier.ascend(self._excess(self._smooth, self._max * slack))

    def _smoothed(self, now: Float[Tensor, " runs"]) -> Float[Tensor, " runs"]:
        return now if self._smooth is None else _SMOOTH * self._smooth + (1 - _SMOOTH) * now

    @staticmethod
    def _excess(smooth: Float[Tensor, " runs"], bound: float) -> Float[Tensor, " runs"]:
        return (smooth / bound).clamp(min=0.1).log()

    @torch.no_grad()
    def price_at(self, kl: Float[Tensor, " runs"], slack: float = 1.0) -> Float[Tensor, " runs"]:
        """The derivative of `term` by KL: the price of one nat of KL in units of the loss."""
        return self._price(self._smoothed(kl.detach()), self._max * slack)

    @property
    def price(self) -> Float[Tensor, " runs"]:
        """The current price of one nat of KL in units of the loss."""
        return self._multiplier.value if self._smooth is None else self._price(self._smooth, self._max)

    def _price(self, smooth: Float[Tensor, " runs"], bound: float) -> Float[Tensor, " runs"]:
        return self._multiplier.pressure(self._excess(smooth, bound)) / smooth.clamp(min=bound)

    def state(self) -> dict[str, Tensor | None]:
        return {"multiplier": self._multiplier.value, "smooth": self._smooth}

    def restore(self, state: dict[str, Tensor | None]) -> None:
        multiplier, smooth = state["multiplier"], state["smooth"]
        assert multiplier is not None
        device = self._multiplier.value.device
        self._multiplier.value = multiplier.to(device)
        self._smooth = None if smooth is None else smooth.to(device)
