"""The interface of a source of pairs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from pivotal.questions.pairs import PairSet


class Phenomenon(ABC):
    """A named source of minimal pairs. A subclass is a frozen dataclass; its fields are its options."""

    name: ClassVar[str]
    labels: ClassVar[tuple[str, str]]
    summary: ClassVar[str]
    """One line for `pivotal list phenomena`."""

    @abstractmethod
    def pairs(self) -> PairSet:
        """All pairs. The same settings give the same pairs in the same order."""
