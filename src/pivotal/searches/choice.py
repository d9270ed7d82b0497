"""Make a search from its name and its settings, as a user gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pivotal.options import build, preset_of
from pivotal.searches.base import Search
from pivotal.units import MAX_UNITS, Steps


def choose(name: str, preset: str | None, given: Mapping[str, object], steps: Steps) -> Search:
    """The search with the settings of a preset, overridden by those given."""
    from pivotal.searches import SEARCHES

    cls = SEARCHES.get(name)
    return settled(build(cls, {**preset_of(cls, preset), **given}), steps)


def settled(search: Search, steps: Steps) -> Search:
    """The same search with `max_units` as a number: run folders and studies store it, whatever the default is."""
    if getattr(search, "max_units", 0) is not None:
        return search
    return replace(search, max_units=MAX_UNITS[steps])  # type: ignore[type-var]
