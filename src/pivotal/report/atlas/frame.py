"""What all pages of an atlas have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from pivotal.report.atlas.entries import Entry
from pivotal.report.html import Section, document

BODY = "<body class=atlas>"
"""Marks the pages of an atlas."""
HOME = {"The whole atlas": "../index.html"}
"""The link above every page but the first, from a folder of the site."""


def atlas_page(
    title: str,
    lead: str,
    sections: Sequence[Section],
    *,
    facts: Sequence[tuple[str, str]] = (),
    above: Mapping[str, str] | None = None,
) -> str:
    """A page. `above` has the links above its title: what they say, and their addresses."""
    page = document(
        title, lead, sections, description=f"{title}: a page of an atlas", facts=facts, also="atlas"
    )
    page = page.replace("<body>", BODY, 1)
    links = " · ".join(f'<a href="{escape(to)}">{escape(text)}</a>' for text, to in (above or {}).items())
    return page.replace("<header>\n", f"<header>\n<p class=crumbs>{links}</p>\n", 1) if links else page


def search_field(what: str) -> str:
    return (
        f"<form class=filters hidden><label class=wide>Find {escape(what)}<input id=find type=search "
        "autocomplete=off></label><p id=found role=status></p></form>"
    )


def within(entry: Entry) -> str:
    """The name of an entry on a page of its model."""
    return ", ".join(filter(None, (entry.phenomenon, entry.steps, entry.variant)))
