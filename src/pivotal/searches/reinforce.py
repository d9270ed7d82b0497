"""The search that the paper compares with: a binary mask learned by REINFORCE, without a gradient through the mask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pivotal.options import check_least
from pivotal.searches.base import require
from pivotal.searches.learned import RelaxedSearch
from pivotal.searches.masks import Estimator, MaskFamily, ScoreFunction
from pivotal.searches.masks.bernoulli import Bernoulli
from pivotal.units import Values


@dataclass(frozen=True)
class Reinforce(RelaxedSearch):
    """Minimise E[loss] over masks m ~ Bernoulli(sigmoid(logits)) and values, subject to the expected number of units.

    The gradient by the logits is the score function with a moving average of the cost as control variate. The gradient
    by the values is the ordinary one through the drawn masks. The search `learned` has the same loop and hardening."""

    name: ClassVar[str] = "reinforce"
    summary: ClassVar[str] = "the search that the paper compares with: a binary mask learned by REINFORCE"
    preset_values: ClassVar[dict[str, Values]] = {"paper": "unbounded"}
    presets: ClassVar[dict[str, dict[str, object]]] = {
        # As the paper describes it: the ratio, the full KL term, the final number of units as the target from the
        # start, one mask per update, and no refit or pruning. The paper does not give the rates. These rates are slow
        # and damped: a multiplier that overshoots switches all units off, and no update switches them on again.
        "paper": {
            "loss": "ratio",
            "kl_weight": 1.0,
            "samples": 1,
            "anneal": 0.0,
            "spare": 1.0,
            "mask_rate": 0.02,
            "multiplier_rate": 0.005,
            "updates": 6000,
            "refit": 0,
            "prune": -1.0,
        }
    }

    updates: int = 400
    """Gradient steps on mask logits and values."""
    samples: int = 4
    """Masks drawn per update and run."""
    memory: float = 0.9
    """Decay of the control variate, a moving average of the loss."""
    damping: float = 50.0
    """Weight of the current violation, in addition to its multiplier, which sums up past violations."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, samples=1)
        require(self, "0 or more and below 1", lambda x: 0 <= x < 1, "memory")

    @property
    def family(self) -> MaskFamily:
        return Bernoulli()

    def estimator(self) -> Estimator:
        return ScoreFunction(self.samples, self.memory)

    @property
    def bound_rates(self) -> tuple[float, float]:
        """Bounds need less damping than the number of units, because their gradient by the values does not come from
        the noisy score function."""
        return 0.01, 1.25
