"""Shows the progress of a job: bars on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from pivotal.cli import terminal
from pivotal.jobs.watch import Watch
from pivotal.records.run import Progress
from pivotal.searches.progress import numbers, terminal_bars

LINE_EVERY = 5.0
"""Seconds between two lines when the output is not a terminal."""


@contextmanager
def watch(quiet: bool) -> Iterator[Watch | None]:
    console = terminal.err()
    if quiet:
        yield None
    elif console.is_terminal:
        with terminal_bars(console) as bars:
            yield bars
    else:
        yield _Lines()


class _Lines:
    def __init__(self) -> None:
        self._phase = ""
        self._last = 0.0

    def say(self, text: str) -> None:
        terminal.note(text)

    def progress(self, progress: Progress) -> None:
        now = time.monotonic()
        if progress.phase == self._phase and now - self._last < LINE_EVERY:
            return
        self._phase, self._last = progress.phase, now
        self.say(f"{progress.phase} {progress.update}/{progress.updates}  {numbers(progress)}".rstrip())
