"""A trace on a terminal: a number in every cell, on a coloured background if the terminal has colours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.table import Table as RichTable
from rich.text import Text

from pivotal.cli import terminal
from pivotal.printing import counted
from pivotal.records.traces import Trace
from pivotal.report.trace import TraceCell, blocks, told

_UNITS, _LAYERS = 16, 12
"""The most rows that are shown."""
_PAPER, _HIGH, _LOW, _GREY = (247, 247, 247), (205, 130, 198), (146, 190, 98), (150, 162, 174)
"""The background of zero, of numbers above and below zero, and of what grows from zero, all with black
text."""


def show_trace(trace: Trace) -> None:
    console = terminal.out()
    terminal.line(told(trace), style="bold")
    shown = blocks(trace, _UNITS, _LAYERS)
    heads = [
        (f"[{token}]" if step == trace.cue else token) + ("*" if on else "")
        for step, (token, on) in enumerate(zip(trace.tokens, trace.edited, strict=True))
    ]
    rows = [row for block in shown for row in block.cells]
    widths = [max(cell_len(head), *(len(row[i].text) for row in rows)) + 1 for i, head in enumerate(heads)]
    names = max(cell_len(text) for block in shown for text in block.names) + 1
    for steps in _fitting(widths, console.width - names):
        terminal.line("")
        for block in shown:
            columns = RichTable(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
            columns.show_header = block is shown[0]
            columns.add_column("", no_wrap=True, width=names - 1)
            for step in steps:
                head = terminal.text_of(heads[step])
                columns.add_column(head, justify="right", no_wrap=True, width=widths[step] - 1)
            for name, cells in zip(block.names, block.cells, strict=True):
                columns.add_row(terminal.text_of(name), *(_cell(cells[step], block.signed) for step in steps))
            terminal.line(block.title, style="dim")
            console.print(columns)
    terminal.line("")
    terminal.line(_legend(trace), style="dim")


def _cell(cell: TraceCell, signed: bool) -> Text:
    end = _GREY if not signed else _HIGH if cell.share >= 0 else _LOW
    strength = min(1.0, abs(cell.share))
    red, green, blue = (round(a + (b - a) * strength) for a, b in zip(_PAPER, end, strict=True))
    return Text(cell.text, style=f"black on rgb({red},{green},{blue})")


def _fitting(widths: Sequence[int], room: int) -> Iterator[list[int]]:
    """The steps in groups that fit the width, at least one step in each."""
    part: list[int] = []
    for step, width in enumerate(widths):
        if part and sum(widths[i] for i in part) + width > room:
            yield part
            part = []
        part.append(step)
    yield part


def _legend(trace: Trace) -> str:
    marks = "[…] the cue, * units set. " if trace.cue is not None else "* units set. "
    left = len(trace.frame.units) - _UNITS
    more = (
        f" Not shown: {counted(left, 'unit')} with smaller changes; --out FILE.json writes all."
        if left > 0
        else ""
    )
    return (
        f"{marks}Probability: that the word comes next. Change of each layer: distance of its state from the untouched "
        f"one, relative to the norm of the untouched state.{more}"
    )
