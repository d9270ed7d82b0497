"""From the name of a search and what is set of it to the search itself, for whoever takes settings from a user."""

from __future__ import annotations

from collections.abc import Mapping

from pivotal.options import build, options_of, preset_of
from pivotal.searches.base import Search

MAX_UNITS = {"every": 4, "single": 5}
"""Where nothing is said: about the numbers that the paper ends up with (3.3 and 5)."""


def choose(name: str, preset: str | None, given: Mapping[str, object], steps: str) -> Search:
    """The search with its settings: a preset, over it what is given, and a budget if none was named."""
    from pivotal.searches import SEARCHES

    cls = SEARCHES.get(name)
    values: dict[str, object] = {**preset_of(cls, preset), **given}
    if "max_units" not in values and "max_units" in {option.name for option in options_of(cls)}:
        values["max_units"] = MAX_UNITS[steps]
    return build(cls, values)
