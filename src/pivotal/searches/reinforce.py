"""The paper's rival: a mask of coin flips, learned by REINFORCE, which needs no gradient through the mask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pivotal.searches.base import require
from pivotal.searches.masks.base import Estimator, MaskFamily
from pivotal.searches.masks.bernoulli import Bernoulli
from pivotal.searches.relaxed.estimators import ScoreFunction
from pivotal.searches.relaxed.search import RelaxedSearch


@dataclass(frozen=True)
class Reinforce(RelaxedSearch):
    """Minimise E[loss] over masks m ~ Bernoulli(sigmoid(logits)) and values, subject to the expected number of units.

    The logits follow the score function with a moving average of the cost as control variate; the values follow the
    ordinary gradient through the drawn masks. The loop and the hardening are those of the learned mask."""

    name: ClassVar[str] = "reinforce"
    summary: ClassVar[str] = (
        "the paper's rival: masks drawn at random, learned by the score function (REINFORCE)"
    )
    presets: ClassVar[dict[str, dict[str, object]]] = {
        # What the paper says of it: the ratio, the full KL term, the wanted number of units as the target from the
        # start, one mask per update, mask and values as they come out. It does not give the rates. These are slow and
        # damped: a multiplier that overshoots switches all coins to tails, and nothing switches them back.
        "paper": {
            "objective": "ratio",
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
    """Share of the control variate, a moving average of the loss, that an update keeps."""
    damping: float = 50.0
    """How strongly a violation acts at once, in addition to its multiplier, which sums up past violations."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "at least one", lambda x: x >= 1, "samples")
        require(self, "0 or more and below 1", lambda x: 0 <= x < 1, "memory")

    @property
    def family(self) -> MaskFamily:
        return Bernoulli()

    def estimator(self) -> Estimator:
        return ScoreFunction(self.samples, self.memory)

    @property
    def kl_rates(self) -> tuple[float, float]:
        """KL is not estimated by the score function: it needs less damping than the number of units."""
        return 0.01, 1.25
