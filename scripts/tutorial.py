"""Run docs/tutorial.py cell by cell and write it down with what it shows: docs/tutorial.md, and its figures.

    python scripts/tutorial.py

The script is in the percent format (`# %%` begins a cell), which editors open as a notebook. Cells tagged "varies" show
numbers that depend on how a processor rounds; what the others show must be the same everywhere, and a test sees to it.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent / "docs"
SOURCE, PAGE = DOCS / "tutorial.py", DOCS / "tutorial.md"
FIGURES = "images/tutorial-{}.svg"


@dataclass(frozen=True)
class Cell:
    text: str
    markdown: bool
    varies: bool


@dataclass(frozen=True)
class Shown:
    """What a cell printed, and its last value as a notebook would show it."""

    cell: Cell
    printed: str = ""
    html: str = ""
    figure: str = ""


def cells() -> list[Cell]:
    parts = re.split(r"^# %%(.*)\n", SOURCE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    made = []
    for head, text in zip(parts[::2], parts[1::2], strict=True):
        markdown = "[markdown]" in head
        if markdown:
            text = re.sub(r"^# ?", "", text, flags=re.MULTILINE)
        made.append(Cell(text.strip(), markdown, '"varies"' in head))
    return made


def run(names: dict[str, Any]) -> Iterator[Shown]:
    """Every cell in turn, in a folder that is gone afterwards; `names` keeps what they define."""
    with tempfile.TemporaryDirectory() as folder, _inside(folder):
        for cell in cells():
            yield Shown(cell) if cell.markdown else _run(cell, names)


def page(shown: list[Shown]) -> str:
    figures = iter(range(1, len(shown) + 1))
    return "\n\n".join(part for one in shown for part in _parts(one, figures)) + "\n"


def _run(cell: Cell, names: dict[str, Any]) -> Shown:
    body = ast.parse(cell.text, SOURCE.name).body
    last = body[-1] if isinstance(body[-1], ast.Expr) else None
    body = body[:-1] if last else body
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), SOURCE.name, "exec"), names)
        value = eval(compile(ast.Expression(last.value), SOURCE.name, "eval"), names) if last else None
    if value is None:
        return Shown(cell, printed.getvalue())
    if type(value).__module__.startswith("altair"):
        return Shown(cell, printed.getvalue(), figure=_drawn(value))
    if hasattr(value, "_repr_html_"):
        return Shown(cell, printed.getvalue(), html=value._repr_html_())
    return Shown(cell, f"{printed.getvalue()}{value!r}\n")


def _drawn(chart: Any) -> str:
    """On white, so that it can be read on pages of any colour."""
    import vl_convert

    return str(vl_convert.vegalite_to_svg(chart.configure(background="white", padding=10).to_dict()))


def _parts(one: Shown, figures: Iterator[int]) -> Iterator[str]:
    if one.cell.markdown:
        yield one.cell.text
        return
    yield f"```python\n{one.cell.text}\n```"
    if one.printed:
        yield f"```text\n{one.printed.rstrip()}\n```"
    if one.html:
        yield one.html
    if one.figure:
        says = f"The chart of {one.cell.text.splitlines()[-1]}; its numbers are in the tables above"
        yield f"![{says}]({FIGURES.format(next(figures))})"


@contextlib.contextmanager
def _inside(folder: str) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def main() -> None:
    shown, start = [], time.monotonic()
    for one in run({"__name__": "tutorial"}):
        shown.append(one)
        if not one.cell.markdown:
            sys.stderr.write(f"{time.monotonic() - start:6.1f} s  {one.cell.text.splitlines()[-1]}\n")
    PAGE.write_text(page(shown), encoding="utf-8")
    for i, figure in enumerate((one.figure for one in shown if one.figure), start=1):
        (DOCS / FIGURES.format(i)).write_text(figure + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
