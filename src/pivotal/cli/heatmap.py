"""A trace on a terminal: a number in every cell, on a coloured background if the terminal has colours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.table import Table as RichTable
from rich.text import Text

from pivotal.cli import terminal
from pivotal.printing import chance
from pivotal.records.traces import Trace
from pivotal.report.tables import counted, number, percent
from pivotal.report.trace import (
    activation,
    asked,
    most_moved,
    shares,
    sides,
    spread_layers,
    steps_named,
    told,
    unit_names,
)

_UNITS, _LAYERS = 16, 12
"""The most rows that are shown."""
_PAPER, _UP, _DOWN = (247, 247, 247), (205, 130, 198), (146, 190, 98)
"""The background of zero, of positive and of negative numbers; black text is readable on all of them."""


@dataclass(frozen=True)
class _Row:
    side: str
    name: str
    cells: list[Text]


def show_trace(trace: Trace) -> None:
    console = terminal.out()
    if not console.is_terminal:
        console.width = max(console.width, 200)
    terminal.line(told(trace), style="bold")
    rows = [*_units(trace), *_words(trace), *_spread(trace)]
    names = steps_named(trace)
    fixed = max(len(row.side) for row in rows) + max(len(row.name) for row in rows) + 2
    widths = [max(cell_len(name), *(len(row.cells[i]) for row in rows)) + 1 for i, name in enumerate(names)]
    for steps in _fitting(widths, console.width - fixed):
        columns = RichTable(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
        columns.add_column("")
        columns.add_column("", no_wrap=True)
        for step in steps:
            columns.add_column(terminal.text_of(names[step]), justify="right", no_wrap=True)
        before = ""
        for row in rows:
            if before and row.side != before:
                columns.add_row()
            columns.add_row(
                terminal.text_of(row.side if row.side != before else "", style="dim"),
                terminal.text_of(row.name),
                *(row.cells[step] for step in steps),
            )
            before = row.side
        terminal.line("")
        console.print(columns)
    terminal.line("")
    terminal.line(_legend(trace), style="dim")


def _units(trace: Trace) -> Iterator[_Row]:
    """A row per unit. Each unit has its own scale, because the units of a transformer have no common one."""
    names, shown = unit_names(trace), most_moved(trace, _UNITS)
    grids = (trace.activation.untouched, trace.activation.edited)
    for side, grid in zip(sides(trace), grids, strict=True):
        for unit in shown:
            largest = max(abs(value) for both in grids for value in both[unit]) or 1.0
            cells = [_cell(activation(value), value / largest) for value in grid[unit]]
            yield _Row(side, names[unit], cells)


def _words(trace: Trace) -> Iterator[_Row]:
    for w, word in enumerate(asked(trace)):
        for side, name in enumerate(sides(trace)):
            p = [trace.probability(w, step)[side] for step in range(len(trace.tokens))]
            yield _Row(f"p({word})", name, [_cell(chance(value), value) for value in p])
    wanted = asked(trace)[trace.target]
    for name, line in zip(sides(trace), shares(trace), strict=True):
        yield _Row(f"share of “{wanted}”", name, [_cell(percent(share), 2 * share - 1) for share in line])


def _spread(trace: Trace) -> Iterator[_Row]:
    most = max(trace.kl) or 1.0
    yield _Row("KL", "", [_cell(number(kl), kl / most) for kl in trace.kl])
    for layer in spread_layers(trace, _LAYERS):
        cells = [_cell(f"{share:.0%}", min(1.0, share)) for share in trace.change[layer]]
        yield _Row("moved", trace.frame.layers[layer], cells)


def _cell(text: str, share: float) -> Text:
    """`share`, from -1 to 1, is the strength of the colour."""
    end = _UP if share >= 0 else _DOWN
    red, green, blue = (round(a + (b - a) * min(1.0, abs(share))) for a, b in zip(_PAPER, end, strict=True))
    return Text(text, style=f"black on rgb({red},{green},{blue})")


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
        f"{marks}p: probability that the word comes next; share: of the probability of the words of both "
        "labels. "
        f"Moved: distance of a layer's state from the untouched one, relative to the norm of the untouched state.{more}"
    )
