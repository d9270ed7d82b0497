"""Searches with settings under which they take a second, for tests that do not depend on what a search finds."""

from dataclasses import fields
from typing import Any

from pivotal.searches import SEARCHES, Search

SETTINGS: dict[str, Any] = {
    **{"updates": 20, "refit": 10, "polish": 5},
    **{"candidates": 6, "rounds": 2, "sample": 16},
}


def short(name: str) -> Search:
    search = SEARCHES.get(name)
    return search(**{field.name: SETTINGS[field.name] for field in fields(search) if field.name in SETTINGS})
