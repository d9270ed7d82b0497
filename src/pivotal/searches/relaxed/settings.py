"""The settings of searches that learn a distribution over masks."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

from pivotal.searches.base import require
from pivotal.searches.choose_then_fit import Selection
from pivotal.searches.masks.base import Estimator, MaskFamily


@dataclass(frozen=True)
class RelaxedSettings(Selection):
    """The settings of the relaxed loop and of the hardening."""

    refit: int = 60
    """Updates of the values with a fixed hard mask, half as many if thinning goes on. 0 keeps the learned values."""
    updates: int = 160
    """Gradient steps on mask logits and values."""
    anneal: float = 0.65
    """Share of the updates in which the allowed number of units shrinks to its target. 0 starts at the target."""
    spare: float = 3.0
    """The relaxed mask may have this many times max_units. Thinning then removes the surplus, with refits."""
    mask_rate: float = 0.1
    """Learning rate of the mask logits."""
    value_rate: float = 0.05
    """Learning rate of the values."""
    multiplier_rate: float = 0.02
    """Learning rate of the multipliers."""
    damping: float = 5.0
    """Weight of the current violation, in addition to its multiplier, which sums up past violations."""
    prune: float = 0.002
    """Remove a unit if that loses at most this share of the flips on training pairs. Negative keeps all units."""

    def __post_init__(self) -> None:
        super().__post_init__()
        rates = ("mask_rate", "value_rate", "multiplier_rate")
        require(self, "above 0 and finite", lambda x: 0 < x < math.inf, *rates)
        require(self, "0 or more and finite", lambda x: 0 <= x < math.inf, "damping")
        require(self, "at least one", lambda x: x >= 1, "updates")
        require(self, "between 0 and 1", lambda x: 0 <= x <= 1, "anneal")
        require(self, "1 or more and finite: it multiplies max_units", lambda x: 1 <= x < math.inf, "spare")
        require(self, "a share of the flips, below 1", lambda x: x < 1, "prune")

    @property
    @abstractmethod
    def family(self) -> MaskFamily:
        """The distribution that masks are drawn from."""

    def estimator(self) -> Estimator:
        """A new estimator of the gradient by the mask logits."""
        return self.family.estimator()

    @property
    def bound_rates(self) -> tuple[float, float]:
        """Rate and damping of the multipliers of the bounds on KL and on changes."""
        return self.multiplier_rate / 2, self.damping / 4
