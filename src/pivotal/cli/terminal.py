"""How the command line prints: results to stdout, everything else to stderr."""

from __future__ import annotations

import re
import shlex
import sys
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from pivotal.printing import error_console, visible

if TYPE_CHECKING:
    from pivotal.report.tables import Table


ARGUMENTS: ContextVar[tuple[str, ...]] = ContextVar("arguments", default=())
"""The arguments as the user typed them."""


def command() -> str:
    """The command as the user typed it, to be stored with its result."""
    return shlex.join(["pivotal", *ARGUMENTS.get()])


def out() -> Console:
    console = Console(highlight=False)
    # In a file or a pipe a wide table is better than one that is cut to 80 columns.
    if not console.is_terminal:
        console.width = max(console.width, 200)
    return console


def text_of(content: str, style: str = "") -> Text:
    """Text to print, with control characters shown. Use this for everything that may come from a file."""
    return Text(visible(content), style=style)


def error(message: str) -> None:
    # Not wrapped: a terminal wraps by itself, and a log or a test gets the sentence on one line.
    error_console().print(text_of(shortened(message), style="red"), soft_wrap=True)


def shortened(message: str, most: int = 4000) -> str:
    """A message without its middle if it quotes something very long."""
    return message if len(message) <= most else f"{message[: most // 2]} … {message[-most // 2 :]}"


def note(message: str) -> None:
    """Print a message that is not part of the result."""
    error_console().print(text_of(message), soft_wrap=True)


def line(text: str, style: str = "") -> None:
    out().print(text_of(text, style), soft_wrap=True)


def result(headline: str, *parts: Table | str | None) -> None:
    """Print the sentence that says the result, and lines and tables below it. Empty parts are left out."""
    line(headline, style="bold")
    for part in [part for part in parts if part]:
        if isinstance(part, str):
            line(part)
        else:
            table(part)


def as_json(content: Any) -> None:
    """Print a record, or dictionaries and lists of records."""
    from pivotal.records.serial import encode

    # JSON escapes most control characters, but not these.
    sys.stdout.write(re.sub(r"[\x7f-\x9f]", lambda c: f"\\u{ord(c[0]):04x}", encode(content)) + "\n")


def table(content: Table) -> None:
    columns = RichTable(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    for i, name in enumerate(content.columns):
        columns.add_column(text_of(name), justify="right" if i in content.numeric else "left")
    for row in content.rows:
        columns.add_row(*(text_of(cell) for cell in row))
    # Title and note are lines of their own, because rich would wrap them to the width of the table.
    line(f"\n{content.title}" if content.title else "", style="bold")
    out().print(columns)
    if content.note:
        line(content.note, style="dim")
