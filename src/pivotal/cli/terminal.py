"""How the command line prints: results to stdout, everything else to stderr."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

if TYPE_CHECKING:
    from pivotal.report.tables import Table


def out() -> Console:
    return Console(highlight=False)


def err() -> Console:
    return Console(stderr=True, highlight=False)


def error(message: str) -> None:
    # Not wrapped: a terminal wraps by itself, and a log or a test gets the sentence on one line.
    err().print(Text(message, style="red"), soft_wrap=True)


def note(message: str) -> None:
    """Print a message that is not part of the result."""
    err().print(Text(message), soft_wrap=True)


def line(text: str, style: str = "") -> None:
    out().print(Text(text, style=style), soft_wrap=True)


def as_json(content: Any) -> None:
    """Print a record, or dictionaries and lists of records."""
    from pivotal.records.serial import encode

    sys.stdout.write(encode(content) + "\n")


def table(content: Table) -> None:
    console = out()
    # In a file or a pipe a wide table is better than one that is cut to 80 columns.
    if not console.is_terminal:
        console.width = max(console.width, 200)
    columns = RichTable(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    for i, name in enumerate(content.columns):
        columns.add_column(Text(name), justify="right" if i in content.numeric else "left")
    for row in content.rows:
        columns.add_row(*(Text(cell) for cell in row))
    # Title and note are lines of their own, because rich would wrap them to the width of the table.
    line(f"\n{content.title}" if content.title else "", style="bold")
    console.print(columns)
    if content.note:
        line(content.note, style="dim")
