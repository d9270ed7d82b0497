"""The Hard Concrete distribution (Louizos et al. 2018; Appendix B of the paper)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from pivotal.errors import PivotalError
from pivotal.searches.masks import Entries, Estimator, MaskFamily, Pathwise

_EDGE = 1e-6
"""Minimum distance of the noise from 0 and 1, where its logit is infinite."""


@dataclass(frozen=True)
class HardConcrete(MaskFamily):
    """A Binary Concrete variable, stretched to (low, high) and clamped to [0, 1]:

    s = sigmoid((log u - log(1 - u) + logit) / temperature),   m = min(1, max(0, s * (high - low) + low))

    The paper prints the stretch as `s * (l - r) + r`, which maps a large logit to 0 and contradicts its text. This
    class follows the text. With high = 1, the paper's half-open variant, there is mass at 0 but not at 1. The
    parameters of Louizos et al. (low -0.1, high 1.1, temperature 2/3) have mass at both ends.
    """

    name: ClassVar[str] = "hard-concrete"
    summary: ClassVar[str] = "relaxed mask with exact zeros (Louizos et al.); pathwise gradient"
    zeros_stay: ClassVar[bool] = True

    temperature: float = 0.2
    """Temperature. A lower one brings samples closer to binary."""
    low: float = -0.2
    """Lower end of the stretched interval, below 0."""
    high: float = 1.0
    """Upper end of the stretched interval, at least 1."""

    def __post_init__(self) -> None:
        if not (self.temperature > 0 and self.low < 0 and self.high >= 1):
            raise PivotalError(
                "A Hard Concrete mask needs temperature > 0, low < 0 and high >= 1, but they are "
                f"{self.temperature}, {self.low} and {self.high}."
            )

    def sample(self, logits: Entries, uniform: Entries) -> Entries:
        noise = uniform.clamp(_EDGE, 1 - _EDGE).logit()
        s = torch.sigmoid((noise + logits) / self.temperature)
        return (s * (self.high - self.low) + self.low).clamp(0, 1)

    def nonzero(self, logits: Entries) -> Entries:
        """P(m != 0) = sigmoid(logit - temperature * log(-low / high))."""
        return torch.sigmoid(logits - self.temperature * math.log(-self.low / self.high))

    def one(self, logits: Entries) -> Entries:
        """P(m = 1) = sigmoid(logit - temperature * log((1 - low) / (high - 1))), and 0 if high is 1."""
        if self.high == 1:
            return torch.zeros_like(logits)
        return torch.sigmoid(logits - self.temperature * math.log((1 - self.low) / (self.high - 1)))

    def fractional(self, logits: Entries) -> Entries:
        return self.nonzero(logits) - self.one(logits)

    def mean(self, logits: Entries) -> Entries:
        """E[m] = integral from 0 to 1 of P(m > x) dx. It has no closed form; this is Gauss-Legendre quadrature."""
        x, weight = _quadrature()
        s = (x - self.low) / (self.high - self.low)
        shift = torch.as_tensor(
            self.temperature * (np.log(s) - np.log1p(-s)), dtype=logits.dtype, device=logits.device
        )
        weights = torch.as_tensor(weight, dtype=logits.dtype, device=logits.device)
        return (torch.sigmoid(logits[..., None] - shift) * weights).sum(-1)

    def estimator(self) -> Estimator:
        return Pathwise()


def _quadrature(points: int = 48) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on (0, 1) after the substitution x = 1 - (1 - y)^3.

    For high = 1 the integrand falls like a small power near 1. The substitution flattens that end.
    """
    y, weight = np.polynomial.legendre.leggauss(points)
    y, weight = (y + 1) / 2, weight / 2
    return 1 - (1 - y) ** 3, 3 * (1 - y) ** 2 * weight


LOUIZOS = HardConcrete(temperature=2 / 3, low=-0.1, high=1.1)
PAPER = HardConcrete()
