"""Constraints with multipliers: min over the parameters, max over lambda >= 0, of loss + lambda * violation.

Violations are logarithms, log(quantity / bound). A search starts at hundreds of times its bound and ends near it, so
one learning rate must work over that whole range.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.searches.tools import Prices

_SMOOTH = 0.9
_BETAS, _EPSILON = (0.9, 0.99), 1e-8
"""Of Adam."""


def shrinking(start: int | float, end: int | float, share: float) -> float:
    """A target that moves from `start` to `end` by a constant factor as `share` goes from 0 to 1."""
    return start * (end / start) ** min(1.0, share)


class Multiplier:
    """The multiplier of a constraint, one number per run. Gradient ascent raises it while the constraint is violated.

    With `damping` the pressure is lambda + damping * violation, as in an augmented Lagrangian, and reacts at once.
    Lambda alone sums up past violations. It would overshoot and switch off units that no update switches on again.
    """

    def __init__(
        self,
        runs: int | tuple[int, int],
        rate: float,
        *,
        damping: float = 0.0,
        largest: float = 20.0,
        device: torch.device | str = "cpu",
    ) -> None:
        """`runs` is the number of runs, or with several constraints that number and theirs."""
        self.value: Float[Tensor, "*runs"] = torch.zeros(runs, device=device)
        self._rate = rate
        self._damping = damping
        self._largest = largest

    def term(self, violation: Float[Tensor, "*runs"]) -> Float[Tensor, "*runs"]:
        """The term that the constraint adds to the loss of each run."""
        return self.pressure(violation) * violation

    @torch.no_grad()
    def pressure(self, violation: Float[Tensor, "*runs"]) -> Float[Tensor, "*runs"]:
        return (self.value + self._damping * violation).clamp(0, self._largest)

    @torch.no_grad()
    def ascend(self, violation: Float[Tensor, "*runs"]) -> None:
        self.value.copy_((self.value + self._rate * violation).clamp(0, self._largest))


class Bounds:
    """Costs, such as KL, that must not exceed their bounds, each with a multiplier. An infinite bound has no effect.
    A cost may be negative: its size is what is bounded.

    Costs are smoothed over updates, because each update measures them at few positions. The slope is that of
    cost / bound below the bound and that of log cost above it: a large excess does not push in proportion, and a cost
    near zero is not reduced further.
    """

    def __init__(
        self, runs: int, bounds: Float[Tensor, " bounds"], rate: float, damping: float, first: float = 0.0
    ) -> None:
        """The first cost is KL. The others are changes, which have a sign. Multipliers start at `first`."""
        self._max = bounds
        self._signed = torch.arange(len(bounds), device=bounds.device) > 0
        self._multiplier = Multiplier((runs, len(bounds)), rate, damping=damping, device=bounds.device)
        self._multiplier.value.fill_(first)
        self._smooth: Prices | None = None

    def term(self, costs: Prices, slack: float | Tensor = 1.0) -> Prices:
        """The terms that the bounds add to the loss of each run. `slack` raises the bounds for large masks."""
        bound, now = self._max * slack, costs.detach()
        smooth = self._smoothed(now)
        # Below its bound, a cost that may have either sign is pushed less the nearer it is to zero.
        push = torch.where(self._signed, (now / bound).clamp(-1, 1), 1.0)
        slope = push * (costs - now) / smooth.abs().maximum(bound)
        return self._multiplier.term(self._excess(smooth, bound) + slope)

    @torch.no_grad()
    def ascend(self, costs: Prices, slack: float | Tensor = 1.0) -> None:
        smooth = self._smoothed(costs.detach())
        self._smooth = smooth.clone() if self._smooth is None else self._smooth.copy_(smooth)
        self._multiplier.ascend(self._excess(self._smooth, self._max * slack))

    def _smoothed(self, now: Prices) -> Prices:
        return now if self._smooth is None else _SMOOTH * self._smooth + (1 - _SMOOTH) * now

    @staticmethod
    def _excess(smooth: Prices, bound: Float[Tensor, " bounds"]) -> Prices:
        return (smooth.abs() / bound).clamp(min=0.1).log()

    @torch.no_grad()
    def price_at(self, costs: Prices, slack: float | Tensor = 1.0) -> Prices:
        """The derivatives of `term` by the sizes of the costs: their prices in units of the loss."""
        return self._price(self._smoothed(costs.detach()), self._max * slack)

    @property
    def price(self) -> Prices:
        """The current prices of the costs in units of the loss."""
        return self._multiplier.value if self._smooth is None else self._price(self._smooth, self._max)

    def _price(self, smooth: Prices, bound: Float[Tensor, " bounds"]) -> Prices:
        return self._multiplier.pressure(self._excess(smooth, bound)) / smooth.abs().maximum(bound)

    def state(self) -> dict[str, Tensor | None]:
        return {"multiplier": self._multiplier.value, "smooth": self._smooth}

    def restore(self, state: dict[str, Tensor | None]) -> None:
        multiplier, smooth = state["multiplier"], state["smooth"]
        assert multiplier is not None
        like = self._multiplier.value
        self._multiplier.value = multiplier.to(like.device).view_as(like)
        self._smooth = None if smooth is None else smooth.to(like.device).view_as(like)


def set_gradients(total: Float[Tensor, " runs"], parameters: Sequence[Tensor]) -> None:
    """Set the gradients of parameters to those of the sum of `total`; None where it does not depend on one."""
    found = torch.autograd.grad(total.sum(), parameters, allow_unused=True)
    for parameter, grad in zip(parameters, found, strict=True):
        parameter.grad = grad


class Adam:
    """Adam, computed as `torch.optim.Adam` does, which imports PyTorch's compiler, a second in every process. On a GPU
    its steps can be part of a recording."""

    def __init__(self, parameters: Sequence[tuple[Tensor, float]]) -> None:
        """`parameters` have a rate each."""
        self._parameters = [parameter for parameter, _ in parameters]
        self.rates: list[float | Tensor] = [rate for _, rate in parameters]
        self._moments = [[torch.zeros_like(parameter) for _ in range(2)] for parameter in self._parameters]
        # A recording repeats what is computed from tensors. On a CPU, numbers keep the digits of double precision.
        self._steps: list[Any] = [
            torch.zeros((), device=one.device) if one.is_cuda else 0 for one in self._parameters
        ]

    @torch.no_grad()
    def step(self) -> None:
        first, second = _BETAS
        for i, (parameter, (mean, square)) in enumerate(zip(self._parameters, self._moments, strict=True)):
            if (grad := parameter.grad) is None:
                continue
            self._steps[i] += 1
            mean.lerp_(grad, 1 - first)
            square.mul_(second).addcmul_(grad, grad, value=1 - second)
            size = self.rates[i] / (1 - first ** self._steps[i])
            below = (square.sqrt() / (1 - second ** self._steps[i]) ** 0.5).add_(_EPSILON)
            if parameter.is_cuda:
                parameter.sub_(size * mean / below)
            else:
                parameter.addcdiv_(mean, below, value=-size)

    def state(self) -> dict[str, Any]:
        return {"moments": self._moments, "steps": [float(step) for step in self._steps]}

    def restore(self, state: dict[str, Any]) -> None:
        for own, moments, i in zip(self._moments, state["moments"], range(len(self._steps)), strict=True):
            for moment, stored in zip(own, moments, strict=True):
                moment.copy_(stored)
            self._steps[i] = self._steps[i] * 0 + state["steps"][i]


@torch.no_grad()
def drop_infinite(parameters: Iterable[Tensor]) -> None:
    """Set the gradients that are infinite or NaN to zero, so that the next update leaves these entries alone.

    The gradient of a recurrent model may grow with every step of a prefix and overflow after hundreds of steps, while
    the loss is an ordinary number. One such entry would make its value NaN for good.
    """
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
