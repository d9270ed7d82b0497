"""Progress reports of a search, and the bar that `progress=True` shows in a terminal or a notebook."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from math import isfinite
from typing import TYPE_CHECKING, Any

from pivotal.printing import visible
from pivotal.records.run import Progress

if TYPE_CHECKING:
    from rich.console import Console

_BARS = 8
"""The number of bars on the screen: a comparison has hundreds of phases."""
_SECONDS = 0.1
"""The least time between two updates of a notebook's bar."""


@contextmanager
def reporting(
    progress: Callable[[Progress], None] | bool | None,
) -> Iterator[Callable[[Progress], None] | None]:
    """Resolve the argument `progress`: True shows a bar, a function is called with each report, None is silent."""
    if progress is True:
        with bars() as shown:
            yield shown.progress
    else:
        yield progress or None


@contextmanager
def bars() -> Iterator[TerminalBars | NotebookBar]:
    """Show progress within the block, in a notebook or on the terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_jupyter:
        yield NotebookBar()
    else:
        with terminal_bars(console) as shown:
            yield shown


@contextmanager
def terminal_bars(console: Console) -> Iterator[TerminalBars]:
    """Show bars on a console within the block."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    with RichProgress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[numbers]}"),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=console,
    ) as shown:
        yield TerminalBars(shown)


class TerminalBars:
    """One bar per phase, drawn by rich."""

    def __init__(self, bars: Any) -> None:
        self._bars = bars
        self._tasks: dict[str, Any] = {}

    def say(self, text: str) -> None:
        """Print a line above the bars."""
        from rich.text import Text

        self._bars.console.print(Text(visible(text)), soft_wrap=True)

    def progress(self, progress: Progress) -> None:
        """Advance the bar of the phase. A new phase completes the bar of the one before."""
        if progress.phase not in self._tasks:
            for task in self._tasks.values():
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


class NotebookBar:
    """One HTML bar below the cell. Unlike rich's bar in a notebook, it does not need ipywidgets."""

    def __init__(self) -> None:
        self._shown: Any = None
        self._phase, self._last = "", 0.0

    def say(self, text: str) -> None:
        """Print a line."""
        print(visible(text))

    def progress(self, progress: Progress) -> None:
        """Redraw the bar, but not more than ten times a second within a phase."""
        from IPython.display import HTML, display

        now, done = time.monotonic(), progress.update >= progress.updates
        if progress.phase == self._phase and now - self._last < _SECONDS and not done:
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
    text = f"{progress.update}/{progress.updates} {numbers(progress)}"
    return f"<div>{escape(progress.phase)} {done} {escape(text.rstrip())}</div>"


def numbers(progress: Progress) -> str:
    """The means over the runs, in words."""
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
