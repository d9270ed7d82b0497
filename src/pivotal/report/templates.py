"""Renders the templates in `assets/report`: pages, which escape every text that is not marked as HTML, and texts."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Undefined, select_autoescape
from markupsafe import Markup, escape

from pivotal.files import asset
from pivotal.printing import counted
from pivotal.report import tables


def page(template: str, *, title: str, lead: str, description: str, **data: Any) -> str:
    """A complete page. Its template extends base.html, which also shows `facts`, `badge`, `example`, `key` and `crumbs`
    if they are given; `extra` names a further style sheet and script."""
    optional = dict.fromkeys(("facts", "badge", "example", "key", "crumbs", "extra"))
    given = {"title": title, "lead": lead, "description": description, "contents": []}
    return environment().get_template(template).render({**optional, **given, **data})


def macros() -> Any:
    """The macros of macros.html as functions that return HTML: `table`, `figure`, `paragraphs` and others."""
    return environment().get_template("macros.html").module


def texts(template: str, **data: Any) -> list[str]:
    """The paragraphs of a text template, each in one line."""
    content = environment().get_template(template).render(data)
    return [" ".join(part.split()) for part in content.split("\n\n") if part.strip()]


@cache
def environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(asset("report")),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        finalize=_data,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.globals["source"] = source
    made.filters |= {
        name: getattr(tables, name) for name in ("activation", "number", "percent", "points", "signed")
    }
    made.filters["share"] = tables.with_interval
    made.filters |= {
        "anchor": anchor,
        "counted": counted,
        "coded": coded,
        "unbroken": unbroken,
        "digest": _digest,
        "thousands": "{:,}".format,
        "seconds": "{:,.0f} s".format,
    }
    return made


def _data(value: Any) -> Any:
    """What a template shows. `row.values` is a method if `row` is a dictionary: a mistake that nobody would see."""
    if callable(value) and not isinstance(value, Undefined):
        raise TypeError(f"A template shows data, but this is {value!r}.")
    return value


@cache
def source(name: str) -> Markup:
    """A style sheet or script. Every page contains a copy."""
    return Markup(asset("report", name).read_text(encoding="utf-8"))


def anchor(title: str) -> str:
    """The name of a section in the address."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def coded(text: str) -> Markup:
    """Text whose options, and what stands between backquotes, are code."""
    code = r"`([^`]+)`|(?<![\w-])(--[a-z-]+(?: (?:full|text|natural|words|[\d.]*\d)\b)?)"
    return Markup(re.sub(code, r"<code>\1\2</code>", str(escape(text))))


def unbroken(code: str) -> Markup:
    """Code that is wrapped at spaces, never within an option such as --max-units."""
    return Markup(re.sub(r"(\S*-\S*)", r"<span>\1</span>", str(escape(code))))


def _digest(script: str) -> str:
    """The digest by which the browser knows our script, the only one that it may run."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
