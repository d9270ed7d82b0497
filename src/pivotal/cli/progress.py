"""What is shown while a job runs: bars on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import isfinite

from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.text import Text

from pivotal.cli import terminal
from pivotal.jobs.find import Watch
from pivotal.searches.base import Progress

LINE_EVERY = 5.0
"""Seconds between two lines if there is no terminal."""
_BARS = 8
"""The most bars on the screen at a time, because a comparison has hundreds of phases."""


@contextmanager
def watch(quiet: bool) -> Iterator[Watch | None]:
    console = terminal.err()
    if quiet:
        yield None
    elif console.is_terminal:
        with RichProgress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=console,
        ) as bars:
            yield _Bars(bars)
    else:
        yield _Lines()


class _Bars:
    def __init__(self, bars: RichProgress) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}

    def say(self, text: str) -> None:
        self._bars.console.print(Text(text), soft_wrap=True)

    def progress(self, progress: Progress) -> None:
        if progress.phase not in self._tasks:
            for task in self._tasks.values():  # a new phase ends the one before
                self._bars.update(task, completed=self._bars.tasks[task].total)
            for task in list(self._tasks.values())[: -_BARS + 1]:
                self._bars.update(task, visible=False)
            self._tasks[progress.phase] = self._bars.add_task(
                progress.phase, total=progress.updates, numbers=""
            )
        self._bars.update(
            self._tasks[progress.phase],
            completed=progress.update,
            total=progress.updates,
            numbers=numbers(progress),
        )


class _Lines:
    def __init__(self) -> None:
        self._phase = ""
        self._last = 0.0

    def say(self, text: str) -> None:
        terminal.err().print(Text(text), soft_wrap=True)

    def progress(self, progress: Progress) -> None:
        now = time.monotonic()
        if progress.phase == self._phase and now - self._last < LINE_EVERY:
            return
        self._phase, self._last = progress.phase, now
        self.say(f"{progress.phase} {progress.update}/{progress.updates}  {numbers(progress)}".rstrip())


def numbers(progress: Progress) -> str:
    """Means over the runs."""
    shown = []
    for name, values, form in (
        ("loss", progress.loss, "{:.3f}"),
        ("units", progress.units, "{:.1f}"),
        ("flipped", progress.accuracy, "{:.1%}"),
    ):
        mean = _mean(values)
        if mean is not None:
            shown.append(f"{name} {form.format(mean)}")
    return "  ".join(shown)


def _mean(values: Sequence[float]) -> float | None:
    finite = [v for v in values if isfinite(v)]
    return sum(finite) / len(finite) if finite else None
