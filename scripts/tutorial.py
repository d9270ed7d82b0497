"""Run docs/tutorial.py cell by cell, and write it with its output: docs/tutorial.md, docs/tutorial.ipynb, figures.

    python scripts/tutorial.py

The script is in the percent format (`# %%` begins a cell). Cells tagged "varies" print numbers that depend on how a
processor rounds. A test checks that the output of the other cells is the same everywhere.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
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
SOURCE, PAGE, NOTEBOOK = DOCS / "tutorial.py", DOCS / "tutorial.md", DOCS / "tutorial.ipynb"
FIGURES = "images/tutorial-{}.svg"


@dataclass(frozen=True)
class Cell:
    text: str
    markdown: bool
    varies: bool


@dataclass(frozen=True)
class Shown:
    """What a cell printed, and its last value as a notebook shows it."""

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
    """Run every cell in a temporary folder. `names` holds what they define."""
    with tempfile.TemporaryDirectory() as folder, _inside(folder):
        for cell in cells():
            yield Shown(cell) if cell.markdown else _run(cell, names)


def page(shown: list[Shown]) -> str:
    figures = iter(range(1, len(shown) + 1))
    return "\n\n".join(part for one in shown for part in _parts(one, figures)) + "\n"


def notebook(shown: list[Shown]) -> str:
    """The cells with their output in the format of Jupyter, nbformat 4.5."""
    made: list[dict[str, Any]] = []
    count = 0
    for i, one in enumerate(shown):
        head: dict[str, Any] = {
            "id": f"cell-{i}",
            "metadata": {},
            "source": one.cell.text.splitlines(keepends=True),
        }
        if one.cell.markdown:
            made.append({"cell_type": "markdown", **head})
            continue
        count += 1
        outputs = list(_outputs(one, count))
        made.append({"cell_type": "code", **head, "execution_count": count, "outputs": outputs})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = {
        "cells": made,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def _outputs(one: Shown, count: int) -> Iterator[dict[str, Any]]:
    if one.printed:
        text = one.printed.splitlines(keepends=True)
        yield {"output_type": "stream", "name": "stdout", "text": text}
    for kind, data in (("text/html", one.html), ("image/svg+xml", one.figure)):
        if data:
            shown = {"data": {kind: data.splitlines(keepends=True)}, "metadata": {}}
            yield {"output_type": "execute_result", "execution_count": count, **shown}


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
    """An SVG with a white background, readable on a page of any colour."""
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
    NOTEBOOK.write_text(notebook(shown), encoding="utf-8")
    for i, figure in enumerate((one.figure for one in shown if one.figure), start=1):
        (DOCS / FIGURES.format(i)).write_text(figure + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
