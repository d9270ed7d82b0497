"""Progress reports of training."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pivotal import printing


@dataclass(frozen=True)
class TrainingProgress:
    """Progress of a phase, in tokens. `total` is None if it is unknown."""

    phase: str
    done: int
    total: int | None
    numbers: str = ""
    seconds_left: float | None = None


@runtime_checkable
class TrainingWatch(Protocol):
    def say(self, text: str) -> None: ...

    def progress(self, progress: TrainingProgress) -> None: ...


class Silent:
    def say(self, text: str) -> None: ...

    def progress(self, progress: TrainingProgress) -> None: ...


class TrainingLines:
    """Prints plain lines to stderr, one every few seconds."""

    def __init__(self, every: float = 10.0) -> None:
        self._every, self._last = every, 0.0

    def say(self, text: str) -> None:
        printing.say(text)

    def progress(self, progress: TrainingProgress) -> None:
        now = time.monotonic()
        if now - self._last < self._every:
            return
        self._last = now
        self.say(line_of(progress))


def line_of(progress: TrainingProgress) -> str:
    parts = [progress.phase, _millions(progress.done)]
    if progress.total:
        parts[-1] += f" of {_millions(progress.total)} ({progress.done / progress.total:.1%})"
    if progress.numbers:
        parts.append(progress.numbers)
    if progress.seconds_left is not None:
        parts.append(f"{printing.duration(progress.seconds_left)} left")
    return "  ".join(parts)


def _millions(tokens: int) -> str:
    return f"{tokens / 1e6:.1f}M tokens" if tokens >= 1e6 else f"{tokens} tokens"
