"""Builds pages. A page is one file, needs no network, and fits screens of any size, light or dark."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import Any

from pivotal.files import asset
from pivotal.report.drawing import Figure
from pivotal.report.tables import Table


@dataclass(frozen=True)
class Section:
    """A part of a page, listed in the table of contents."""

    title: str
    content: str
    anchor: str = ""
    """The name of a part that is a page of its own: it is shown, alone, when the address names it, and not listed."""

    @property
    def name(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")


@cache
def source_of(name: str) -> str:
    """A style sheet or script. Every page contains a copy."""
    return asset("report", name).read_text(encoding="utf-8")


def document(
    title: str,
    lead: str,
    sections: Sequence[Section],
    *,
    description: str,
    facts: Sequence[tuple[str, str]] = (),
    badge: str = "",
    key: Sequence[tuple[str, str]] = (),
    data: Mapping[str, Any] | None = None,
    also: str = "",
) -> str:
    """A complete page. `badge` is shown above the lead. `key` explains the colours of the page: colour and meaning. The
    script reads `data` by name. `also` names a further style sheet and script."""
    script = source_of("page.js") + (source_of(f"{also}.js") if also else "")
    style = source_of("page.css") + (source_of(f"{also}.css") if also else "")
    blocks = "".join(_data(name, content) for name, content in (data or {}).items())
    return (
        f"<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n{_policy(script)}\n"
        '<meta name=viewport content="width=device-width, initial-scale=1">\n'
        '<meta name=color-scheme content="light dark">\n'
        f'<meta name=description content="{escape(description)}">\n<title>{escape(title)} · pivotal</title>\n'
        f"<style>\n{style}</style>\n</head>\n<body>\n"
        '<a class=skip href="#main">Skip to the content</a>\n<div class=frame>\n'
        f"<header>\n<p class=kicker>pivotal</p>\n<h1>{escape(title)}</h1>\n{_badge(badge)}"
        f"<p class=lead>{_with_code(lead)}</p>\n{_facts(facts)}{_key(key)}</header>\n"
        f"{_contents(sections)}\n<main id=main>\n"
        + "\n".join(map(_section, sections))
        + "\n</main>\n<footer>Made by pivotal from the files in this folder. The page loads nothing.</footer>\n"
        f"</div>\n{blocks}<script>{script}</script>\n</body>\n</html>\n"
    )


def _policy(script: str) -> str:
    """A policy for the browser: fetch nothing, and run only our script."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    rules = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"
    return f"<meta http-equiv=Content-Security-Policy content=\"{rules}; form-action 'none'\">"


def _data(name: str, content: Any) -> str:
    # "</script>" in a sentence would end the block, so "<" is escaped.
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace(
        "<", "\\u003c"
    )
    return f"<script type=application/json id={name}>{text}</script>\n"


def _contents(sections: Iterable[Section]) -> str:
    listed = [part for part in sections if not part.anchor]
    items = "".join(f'<li><a href="#{part.name}">{escape(part.title)}</a></li>' for part in listed)
    return f'<nav aria-label="On this page"><ul>{items}</ul></nav>'


def _section(part: Section) -> str:
    if part.anchor:
        return (
            f"<section class=unit-page id={part.anchor} aria-labelledby={part.anchor}-title>\n"
            f"<h2 id={part.anchor}-title>{escape(part.title)}</h2>\n{part.content}\n</section>"
        )
    return (
        f"<section aria-labelledby={part.name}>\n<h2 id={part.name}>{escape(part.title)}</h2>\n"
        f"{part.content}\n</section>"
    )


def _badge(text: str) -> str:
    return (
        f'<p class="badge {escape(re.sub("[^a-z]+", "-", text.lower()))}">{escape(text)}</p>\n'
        if text
        else ""
    )


def _key(key: Sequence[tuple[str, str]]) -> str:
    """The colours of the page and what they mean."""
    items = "".join(
        f'<li><span class=swatch style="background:{escape(colour)}"></span>{escape(meaning)}</li>'
        for colour, meaning in key
    )
    return f'<ul class=key aria-label="Colours on this page">{items}</ul>\n' if key else ""


def _with_code(text: str) -> str:
    """Text for a page. Options and what stands between backquotes are code."""
    return re.sub(r"`([^`]+)`|(?<![\w-])(--[a-z-]+)", r"<code>\1\2</code>", escape(text))


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    items = "".join(f"<li><b>{escape(value)}</b> {escape(name)}</li>" for value, name in facts)
    return f"<ul class=facts>{items}</ul>\n" if facts else ""


# -- what sections are made of -----------------------------------------------------------------------------


def suggestions(steps: Sequence[str]) -> str:
    """A list of what to do next."""
    items = "".join(f"<li>{_with_code(step)}</li>" for step in steps)
    return f"<p>Next:</p>\n<ul>{items}</ul>\n" if steps else ""


def paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def paragraphs(*texts: str) -> str:
    """A paragraph per text that is not empty."""
    return "".join(paragraph(text) for text in texts if text)


def table_of(content: Table, *, title: bool = True, links: Mapping[str, str] | None = None) -> str:
    """A table whose first column names the row. A wide table scrolls, also by keyboard. `links` gives the addresses of
    cells, by their text."""

    def cells(row: tuple[str, ...], head: bool = False) -> str:
        made = []
        for i, cell in enumerate(row):
            tag, scope = ("th", " scope=col" if head else " scope=row") if head or i == 0 else ("td", "")
            right = " class=n" if i in content.numeric else ""
            to = None if head else (links or {}).get(cell)
            shown = escape(cell) if to is None else f'<a href="{escape(to)}">{escape(cell)}</a>'
            made.append(f"<{tag}{scope}{right}>{shown}</{tag}>")
        return "".join(made)

    caption = f"<caption>{escape(content.title)}</caption>" if title and content.title else ""
    body = "\n".join(f"<tr>{cells(row)}</tr>" for row in content.rows)
    note = paragraph(content.note) if content.note else ""
    head = f"<thead><tr>{cells(content.columns, head=True)}</tr></thead>"
    label = escape(content.title or "Table")
    return (
        f'<div class=scroll tabindex=0 role=group aria-label="{label}">'
        f"<table>{caption}{head}\n<tbody>\n{body}\n</tbody></table></div>{note}"
    )


def figure_of(figure: Figure) -> str:
    """The figure, its description in words, and a table of its numbers."""
    label = escape(figure.title)
    chart = (
        f'<div class=scroll tabindex=0 role=group aria-label="{label}"><div class=chart>{figure.labelled}</div></div>'
        if figure.svg
        else paragraph(
            "The figure could not be drawn on the machine that wrote this page. Its numbers are below."
        )
    )
    return (
        f"<figure id={figure.name}>\n<figcaption><b>{label}.</b> {escape(figure.alternative)}</figcaption>\n"
        f"{chart}\n<details><summary>The numbers</summary>{table_of(figure.data)}</details>\n</figure>"
    )


def code(text: str) -> str:
    return f"<div class=code><pre tabindex=0><code>{escape(text)}</code></pre></div>"


def definitions(rows: Iterable[tuple[str, str]]) -> str:
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in rows if value)
    return f"<dl>{listed}</dl>"
