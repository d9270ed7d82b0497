"""What a distribution over masks offers to a search."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from jaxtyping import Bool, Float
from torch import Tensor


class MaskFamily(ABC):
    """A distribution over a mask entry, given a logit; entries are independent of each other."""

    name: ClassVar[str]
    summary: ClassVar[str]

    @abstractmethod
    def sample(
        self, logits: Float[Tensor, "*entries"], uniform: Float[Tensor, "*entries"]
    ) -> Float[Tensor, "*entries"]:
        """A mask from uniform noise in (0, 1), with a gradient by the logits."""

    @abstractmethod
    def nonzero(self, logits: Float[Tensor, "*entries"]) -> Float[Tensor, "*entries"]:
        """P(m != 0): its sum is the expected number of units."""

    @abstractmethod
    def fractional(self, logits: Float[Tensor, "*entries"]) -> Float[Tensor, "*entries"]:
        """P(0 < m < 1): the mass that a hard mask cannot keep."""

    @abstractmethod
    def mean(self, logits: Float[Tensor, "*entries"]) -> Float[Tensor, "*entries"]:
        """E[m]."""

    def hard(self, logits: Float[Tensor, "*entries"]) -> Bool[Tensor, "*entries"]:
        """The paper's rule: an entry is on where its expected value exceeds one half."""
        return self.mean(logits) > 0.5
