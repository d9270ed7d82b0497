"""Tables as files: Markdown and LaTeX for people, CSV with a line per run for programs."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable

from pivotal.printing import visible
from pivotal.report.tables import Table

_LATEX = str.maketrans(
    {
        "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
        "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}",
        "±": r"$\pm$", "–": "--", "−": "$-$", "→": r"$\rightarrow$",
    }
)  # fmt: skip


def in_markdown(text: str) -> str:
    """Text for Markdown: no HTML, links or images of a file's making, and in one line."""
    text = re.sub(r"[\\`\[|]", r"\\\g<0>", one_line(text))
    return re.sub(r"&(?=#?\w+;)", "&amp;", text).replace("<", "&lt;")


def one_line(text: str) -> str:
    """Text in one line, with control characters shown. A new line would end a table's row or a comment."""
    return visible(" ".join(text.splitlines()))


def markdown(content: Table) -> str:
    def line(cells: tuple[str, ...]) -> str:
        return "| " + " | ".join(map(in_markdown, cells)) + " |\n"

    rule = (
        "|" + "|".join("---:" if i in content.numeric else "---" for i in range(len(content.columns))) + "|\n"
    )
    note = f"\n{in_markdown(content.note)}\n" if content.note else ""
    return line(content.columns) + rule + "".join(map(line, content.rows)) + note


def latex(content: Table) -> str:
    """A tabular for the package booktabs."""

    def line(cells: tuple[str, ...]) -> str:
        return " & ".join(one_line(cell).translate(_LATEX) for cell in cells) + r" \\" + "\n"

    columns = "".join("r" if i in content.numeric else "l" for i in range(len(content.columns)))
    return (
        f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n{line(content.columns)}\\midrule\n"
        + "".join(map(line, content.rows))
        + "\\bottomrule\n\\end{tabular}\n"
    )


def csv_text(lines: Iterable[Iterable[object]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(map(_csv_cell, line) for line in lines)
    return out.getvalue()


def _csv_cell(value: object) -> object:
    """A cell that a spreadsheet takes as text. It would run a text that begins like a formula; an apostrophe prevents
    that."""
    text = visible(value) if isinstance(value, str) else ""
    return f"'{text}" if text.lstrip().startswith(("=", "+", "-", "@")) else text or value
