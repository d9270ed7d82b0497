"""Shows the progress of a study: a live table on a terminal, otherwise lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pivotal.cli import terminal
from pivotal.jobs.study.cells import Cell
from pivotal.jobs.study.watch import Standing, StudyLines, StudyWatch, UnwatchedStudy
from pivotal.printing import duration
from pivotal.report.tables import counted
from pivotal.searches.base import Progress
from pivotal.searches.progress import numbers

_FEWEST = 5
"""The fewest cells that are listed, however small the screen is."""


@contextmanager
def watch(quiet: bool) -> Iterator[StudyWatch]:
    console = terminal.err()
    if quiet:
        yield UnwatchedStudy()
    elif console.is_terminal:
        board = Board(console)
        with Live(get_renderable=board.drawn, console=console, refresh_per_second=4):
            yield board
    else:
        yield StudyLines()


class Board:
    """Every cell with its runs. If there are too many for the screen, unfinished cells come first."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._cells: Sequence[Standing] = ()
        self._left: float | None = None
        self._now: dict[str, str] = {}

    def say(self, text: str) -> None:
        self._console.print(terminal.text_of(text), soft_wrap=True)

    def stands(self, cells: Sequence[Standing], seconds_left: float | None) -> None:
        for standing in cells:
            if not standing.left:
                self._now.pop(standing.cell.key, None)
        self._cells, self._left = cells, seconds_left

    def began(self, cell: Cell) -> None:
        self._now[cell.key] = "…"

    def progress(self, cell: Cell, progress: Progress) -> None:
        self._now[cell.key] = (
            f"{progress.phase} {progress.update}/{progress.updates}  {numbers(progress)}".rstrip()
        )

    def drawn(self) -> Group:
        room = max(_FEWEST, self._console.height - 4)
        shown = list(self._cells)
        if len(shown) > room:
            shown = sorted(shown, key=lambda s: (s.cell.key not in self._now, not s.failed, not s.left))[
                :room
            ]
        columns = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
        for name in ("cell", "done", "failed", "time", ""):
            columns.add_column(
                name, justify="right" if name in ("done", "failed", "time") else "left", no_wrap=True
            )
        for s in shown:
            columns.add_row(
                terminal.text_of(s.cell.name),
                f"{s.done}/{s.wanted}",
                Text(str(s.failed), style="red") if s.failed else "",
                duration(s.seconds) if s.seconds else "",
                terminal.text_of(self._now.get(s.cell.key, s.error), style="dim"),
            )
        return Group(columns, Text(self._total(len(shown))))

    def _total(self, shown: int) -> str:
        done, wanted = sum(s.done for s in self._cells), sum(s.wanted for s in self._cells)
        hidden = len(self._cells) - shown
        more = f", {counted(hidden, 'more cell')}" if hidden else ""
        left = f", about {duration(self._left)} left" if self._left else ""
        return f"{done} of {counted(wanted, 'run')} done{left}{more}"
