"""The interfaces of a distribution over masks and of its gradient estimator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor


class MaskFamily(ABC):
    """The distribution of a mask entry, given its logit. Entries are independent.

    A subclass is a frozen dataclass. All its fields have defaults, because a search creates a family by its name.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    zeros_stay: ClassVar[bool] = False
    """Whether a sample of 0 has no gradient by its logit. A site whose mask is 0 can then be skipped."""

    @abstractmethod
    def sample(
        self, logits: Float[Tensor, "*entries"], uniform: Float[Tensor, "*entries"]
    ) -> Float[Tensor, "*entries"]:
        """A mask from uniform noise in (0, 1), with a gradient by the logits if the estimator is pathwise."""

    @abstractmethod
    def nonzero(self, logits: Float[Tensor, "*entries"]) -> Float[Tensor, "*entries"]:
        """P(m != 0). Its sum is the expected number of units."""

    @abstractmethod
    def fractional(self, logits: Float[Tensor, "*entries"]) -> Float[Tensor, "*entries"]:
        """P(0 < m < 1), the mass that is lost when the mask is made hard."""

    @abstractmethod
    def mean(self, logits: Float[Tensor, "*entries"]) -> Float[Tensor, "*entries"]:
        """E[m]."""

    def hard(self, logits: Float[Tensor, "*entries"]) -> Bool[Tensor, "*entries"]:
        """The paper's rule: an entry is on if its expected value exceeds one half."""
        return self.mean(logits) > 0.5

    def log_probability(
        self, mask: Float[Tensor, "*#entries"], logits: Float[Tensor, "*#entries"]
    ) -> Float[Tensor, "*#entries"]:
        """log P(m = mask), with a gradient by the logits. Only the score function needs it."""
        raise NotImplementedError(f"{type(self).__name__} needs log_probability() to use the score function.")

    @abstractmethod
    def estimator(self) -> Estimator:
        """A new gradient estimator: `Pathwise` or `ScoreFunction` of `pivotal.searches.relaxed.estimators`."""


class Estimator(ABC):
    """An estimator of d E[cost] / d logits, and the start values that suit its noise."""

    start: ClassVar[float]
    """The expected share of units that are on at the start. The allowed number of units shrinks from there."""
    largest: ClassVar[float]
    """The largest multiplier of the constraint on the number of units."""
    samples: int = 1
    """Masks drawn per update and run."""

    @abstractmethod
    def first_logits(
        self, generators: list[torch.Generator], shape: tuple[int, int], device: torch.device
    ) -> Float[Tensor, "runs masks units"]:
        """The logits before the first update."""

    @abstractmethod
    def term(
        self,
        family: MaskFamily,
        logits: Float[Tensor, "runs masks units"],
        drawn: Float[Tensor, "runs samples masks units"],
        cost: Float[Tensor, "runs samples"],
    ) -> Float[Tensor, " runs"]:
        """A term whose gradients are the estimates. It must not change the state of the estimator."""

    @abstractmethod
    def hard(
        self, family: MaskFamily, logits: Float[Tensor, "runs masks units"], budget: int
    ) -> Bool[Tensor, "runs masks units"]:
        """The hard mask: at most `budget` units, at least one."""

    def follow(self, cost: Float[Tensor, "runs samples"]) -> None:  # noqa: B027 - most estimators keep nothing
        """Called after each update with the costs of its masks."""

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any], device: torch.device) -> None:  # noqa: B027
        pass
