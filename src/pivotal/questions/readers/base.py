"""The interface of a reader of files in another format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

from pivotal.questions.pairs import PairSet


@dataclass(frozen=True)
class ReadOptions:
    """How files in other formats are read."""

    columns: str = ""
    """The columns of a table: `prefix=sentence,good=right,bad=wrong`."""
    skip_bad: bool = False
    """Leave out and list rows that cannot be read, instead of refusing the file."""


@dataclass(frozen=True)
class Part:
    """One of the questions in a file or folder."""

    name: str
    pairs: PairSet | None
    reason: str = ""
    """Why there are no pairs, if there are none."""


@dataclass(frozen=True)
class Reader(ABC):
    """Reads files in another format as minimal pairs: users write `name:PATH`. A subclass is a frozen dataclass."""

    name: ClassVar[str]
    summary: ClassVar[str]
    """One line for `pivotal list phenomena`."""

    path: str
    """The file or folder."""
    reading: ReadOptions = field(default_factory=ReadOptions)
    """How it is read."""

    @abstractmethod
    def pairs(self) -> PairSet:
        """All pairs. Its notes say what was inferred and what was left out."""

    def parts(self) -> list[Part]:
        """The questions in the file or folder, each on its own. Most files have one."""
        pairs = self.pairs()
        return [Part(pairs.name, pairs)]
