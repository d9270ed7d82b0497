"""How far the cells of a study are."""

from __future__ import annotations

from dataclasses import dataclass

from pivotal import printing
from pivotal.jobs.study.cells import Cell


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


def told(standing: Standing, seconds_left: float | None) -> str:
    """A line about a cell, after a batch of it."""
    failed = f", {standing.failed} failed: {standing.error}" if standing.failed else ""
    left = "" if seconds_left is None else f" (the rest takes about {printing.duration(seconds_left)})"
    done = f"{standing.done} of {standing.wanted} done in {printing.duration(standing.seconds)}"
    return f"{standing.cell.name}: {done}{failed}{left}"


def counted(runs: int) -> str:
    return "1 run" if runs == 1 else f"{runs} runs"
