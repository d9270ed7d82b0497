"""How a job reports its progress, and three displays: bars on a terminal, lines in a log, a bar in a notebook."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from html import escape
from math import isfinite
from typing import Any, Protocol, runtime_checkable

from pivotal import printing
from pivotal.records.run import Progress
from pivotal.records.serial import replace

_BARS = 8
"""The number of bars on the screen: a study has hundreds of phases."""
_LINE_SECONDS, _NOTEBOOK_SECONDS = 5.0, 0.1
"""The least time between two lines, and between two drawings of a notebook's bar, within a phase."""
_EARLY = ("exchange", "further sets")
"""The phases that may end before their last update."""
_NUMBERS = {
    "loss": "loss {:.3f}",
    "units": "units {:.1f}",
    "accuracy": "flipped {:.1%}",
    "perplexity": "perplexity {:.1f}",
    "speed": "{:,.0f} tokens/s",
}
"""The series that are shown, as means over the runs."""


@runtime_checkable
class Watch(Protocol):
    """Receives messages and progress while a job runs."""

    def say(self, text: str) -> None: ...

    def progress(self, progress: Progress) -> None: ...


class Silent:
    """A watch that ignores everything."""

    def say(self, text: str) -> None: ...

    def progress(self, progress: Progress) -> None: ...


class Named:
    """Passes on the reports of one part of a job, with its name in front."""

    def __init__(self, name: str, watch: Watch) -> None:
        self._name, self._watch = name, watch

    def say(self, text: str) -> None:
        self._watch.say(f"{self._name}: {text}")

    def progress(self, progress: Progress) -> None:
        self._watch.progress(replace(progress, phase=f"{self._name}: {progress.phase}"))


@contextmanager
def display(quiet: bool = False) -> Iterator[Watch]:
    """Show progress within the block, in the way that suits where it is printed."""
    console = printing.error_console()
    if quiet:
        yield Silent()
    elif console.is_jupyter:
        yield NotebookBar()
    elif console.is_terminal:
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        columns = [
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[report]}"),
        ]
        with RichProgress(*columns, TimeRemainingColumn(elapsed_when_finished=True), console=console) as bars:
            yield Bars(bars)
    else:
        with closing(Lines()) as lines:
            yield lines


@contextmanager
def reporting(
    progress: Callable[[Progress], None] | bool | None,
) -> Iterator[Callable[[Progress], None] | None]:
    """Resolve the argument `progress`: True shows it, a function is called with each report, None is silent."""
    if progress is True:
        with display() as shown:
            yield shown.progress
    else:
        yield progress or None


class Bars:
    """One bar per phase, drawn by rich."""

    def __init__(self, bars: Any) -> None:
        self._bars = bars
        self._tasks: dict[str, Any] = {}

    def say(self, text: str) -> None:
        """Print a line above the bars."""
        from rich.text import Text

        self._bars.console.print(Text(printing.visible(text)), soft_wrap=True)

    def progress(self, progress: Progress) -> None:
        """Advance the bar of the phase. A new phase completes the bars of those before."""
        if progress.phase not in self._tasks:
            for task in self._tasks.values():
                self._bars.update(task, total=(done := self._bars.tasks[task].total or 1), completed=done)
            for task in list(self._tasks.values())[: -_BARS + 1]:
                self._bars.update(task, visible=False)
            phase = printing.visible(progress.phase).replace("[", r"\[")
            self._tasks[progress.phase] = self._bars.add_task(phase, total=None, report="")
        self._bars.update(
            self._tasks[progress.phase],
            completed=progress.update,
            total=progress.updates or None,
            report=told(progress),
        )


class Lines:
    """A line on stderr when a phase begins, and every few seconds after."""

    def __init__(self) -> None:
        self._phase, self._last = "", 0.0
        self._begun = (0.0, 0)

    def say(self, text: str) -> None:
        printing.say(text)

    def progress(self, progress: Progress) -> None:
        now = time.monotonic()
        if progress.phase != self._phase:
            self.close()
            self._phase, self._begun = progress.phase, (now, progress.update)
        elif now - self._last < _LINE_SECONDS:
            return
        self._last = now
        self.say(f"{progress.phase} {told(progress)}{self._left(progress, now)}".rstrip())

    def close(self) -> None:
        """Say how long the phase took."""
        seconds = time.monotonic() - self._begun[0]
        if self._phase and seconds >= 1:
            self.say(f"{self._phase} took {printing.duration(seconds)}")

    def _left(self, progress: Progress, now: float) -> str:
        began, first = self._begun
        if not first < progress.update < progress.updates:
            return ""
        seconds = (now - began) * (progress.updates - progress.update) / (progress.update - first)
        return f"  {'at most ' * progress.phase.endswith(_EARLY)}{printing.duration(seconds)} left"


class NotebookBar:
    """One HTML bar below the cell. Unlike rich's bar in a notebook, it does not need ipywidgets."""

    def __init__(self) -> None:
        self._shown: Any = None
        self._phase, self._last = "", 0.0

    def say(self, text: str) -> None:
        print(printing.visible(text))

    def progress(self, progress: Progress) -> None:
        """Redraw the bar, but not more than ten times a second within a phase."""
        from IPython.display import HTML, display

        now, done = time.monotonic(), progress.update >= progress.updates
        if progress.phase == self._phase and now - self._last < _NOTEBOOK_SECONDS and not done:
            return
        self._phase, self._last = progress.phase, now
        bar = HTML(bar_html(progress))
        if self._shown is None:
            self._shown = display(bar, display_id=True)
        else:
            self._shown.update(bar)


def bar_html(progress: Progress) -> str:
    """A report as one line of HTML: the phase, a bar, and the numbers."""
    done = f'<progress value="{progress.update}" max="{max(progress.updates, 1)}"></progress>'
    return f"<div>{escape(progress.phase)} {done} {escape(told(progress))}</div>"


def told(progress: Progress) -> str:
    """The updates done, and the means over the runs."""
    of = " of at most " if progress.phase.endswith(_EARLY) else "/"
    parts = [f"{progress.update:,}{of}{progress.updates:,}" if progress.updates else f"{progress.update:,}"]
    for name, form in _NUMBERS.items():
        mean = mean_of(getattr(progress, name, None) or progress.extra.get(name, []))
        if mean is not None:
            parts.append(form.format(mean))
    return "  ".join(parts)


def mean_of(values: Sequence[float]) -> float | None:
    """The mean of the finite values."""
    finite = [v for v in values if isfinite(v)]
    return sum(finite) / len(finite) if finite else None
