"""The parts that pages are made of: one file each, no network, for a screen of any size, light or dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from pivotal.report.drawing import Figure
from pivotal.report.style import CSS
from pivotal.report.tables import Table


def document(title: str, description: str, parts: Sequence[str]) -> str:
    return (
        "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n"
        '<meta name=viewport content="width=device-width, initial-scale=1">\n'
        '<meta name=color-scheme content="light dark">\n'
        f'<meta name=description content="{escape(description)}">\n<title>{escape(title)} · pivotal</title>\n'
        f"<style>\n{CSS}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(parts)
        + "\n</main>\n</body>\n</html>\n"
    )


def section(title: str, content: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n{content}\n</section>"


def paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def table_of(content: Table, *, title: bool = True) -> str:
    def cells(tag: str, row: tuple[str, ...]) -> str:
        return "".join(
            f"<{tag}{' class=n' if i in content.numeric else ''}>{escape(cell)}</{tag}>"
            for i, cell in enumerate(row)
        )

    caption = f"<caption>{escape(content.title)}</caption>" if title and content.title else ""
    body = "\n".join(f"<tr>{cells('td', row)}</tr>" for row in content.rows)
    note = paragraph(content.note) if content.note else ""
    head = f"<thead><tr>{cells('th', content.columns)}</tr></thead>"
    return f"<div class=scroll><table>{caption}{head}\n<tbody>\n{body}\n</tbody></table></div>{note}"


def figure_of(figure: Figure) -> str:
    caption = f"<b>{escape(figure.title)}.</b> {escape(figure.alternative)}"
    return (
        f"<figure id={figure.name}>\n<figcaption>{caption}</figcaption>\n"
        f'<div class=scroll><div class=chart role=img aria-label="{escape(figure.alternative)}">'
        f"{figure.svg}</div></div>\n"
        f"<details><summary>The numbers</summary>{table_of(figure.data)}</details>\n</figure>"
    )


def code(text: str) -> str:
    return f"<pre><code>{escape(text)}</code></pre>"
