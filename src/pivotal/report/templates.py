"""Renders pages from the templates in `assets/report`. Templates escape every text that is not marked as HTML."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from pivotal.files import asset
from pivotal.report import tables


def page(template: str, *, title: str, lead: str, description: str, **data: Any) -> str:
    """A complete page. Its template extends base.html, which also shows `facts`, `badge`, `key` and `crumbs` if they
    are given; `extra` names a further style sheet and script."""
    optional = dict.fromkeys(("facts", "badge", "key", "crumbs", "extra"))
    given = {"title": title, "lead": lead, "description": description, "contents": []}
    return environment().get_template(template).render({**optional, **given, **data})


def macros() -> Any:
    """The macros of macros.html as functions that return HTML: `table`, `figure`, `paragraphs` and others."""
    return environment().get_template("macros.html").module


@cache
def environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(asset("report")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.globals["source"] = source
    made.filters |= {name: getattr(tables, name) for name in ("activation", "number", "percent", "signed")}
    made.filters |= {"anchor": anchor, "coded": coded, "digest": _digest}
    return made


@cache
def source(name: str) -> Markup:
    """A style sheet or script. Every page contains a copy."""
    return Markup(asset("report", name).read_text(encoding="utf-8"))


def anchor(title: str) -> str:
    """The name of a section in the address."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def coded(text: str) -> Markup:
    """Text whose options, and what stands between backquotes, are code."""
    return Markup(re.sub(r"`([^`]+)`|(?<![\w-])(--[a-z-]+)", r"<code>\1\2</code>", str(escape(text))))


def _digest(script: str) -> str:
    """The digest by which the browser knows our script, the only one that it may run."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
