"""How a study reports its progress."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pivotal import printing
from pivotal.jobs.study.cells import Cell
from pivotal.searches.base import Progress


@dataclass(frozen=True)
class Standing:
    """How far a cell is, in runs."""

    cell: Cell
    wanted: int
    done: int = 0
    failed: int = 0
    seconds: float = 0.0
    """Of its finished batches."""
    error: str = ""

    @property
    def left(self) -> int:
        return self.wanted - self.done - self.failed


@runtime_checkable
class StudyWatch(Protocol):
    def say(self, text: str) -> None: ...

    def stands(self, cells: Sequence[Standing], seconds_left: float | None) -> None:
        """After every batch, and once before the first."""

    def began(self, cell: Cell) -> None: ...

    def progress(self, cell: Cell, progress: Progress) -> None:
        """Of the running batch, if the executor can see it."""


class UnwatchedStudy:
    """A watch that shows nothing."""

    def say(self, text: str) -> None: ...

    def stands(self, cells: Sequence[Standing], seconds_left: float | None) -> None: ...

    def began(self, cell: Cell) -> None: ...

    def progress(self, cell: Cell, progress: Progress) -> None: ...


class StudyLines:
    """Plain lines on stderr: when a cell begins, when a batch ends, and every few seconds in between."""

    def __init__(self, every: float = 30.0) -> None:
        self._every, self._last = every, time.monotonic()
        self._before: dict[str, Standing] = {}

    def say(self, text: str) -> None:
        printing.say(text)

    def stands(self, cells: Sequence[Standing], seconds_left: float | None) -> None:
        for now in cells:
            before = self._before.get(now.cell.key)
            if before is not None and before != now:
                self.say(f"{now.cell.name}: {counts(now)}{_left(seconds_left)}")
            self._before[now.cell.key] = now

    def began(self, cell: Cell) -> None:
        self.say(f"{cell.name} …")

    def progress(self, cell: Cell, progress: Progress) -> None:
        if time.monotonic() - self._last >= self._every:
            self._last = time.monotonic()
            self.say(f"{cell.name}: {progress.phase} {progress.update}/{progress.updates}")


def counts(standing: Standing) -> str:
    failed = f", {standing.failed} failed: {standing.error}" if standing.failed else ""
    return f"{standing.done} of {standing.wanted} done in {printing.duration(standing.seconds)}{failed}"


def counted(runs: int) -> str:
    return "1 run" if runs == 1 else f"{runs} runs"


def _left(seconds: float | None) -> str:
    return "" if seconds is None else f" (the rest takes about {printing.duration(seconds)})"
