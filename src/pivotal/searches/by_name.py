"""Make a search from its name and settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pivotal.errors import PivotalError
from pivotal.options import build, preset_of
from pivotal.searches.base import Search
from pivotal.units import KEEP_KL, MAX_UNITS, Steps, Values


def choose(name: str, preset: str | None, given: Mapping[str, object], steps: Steps) -> Search:
    """The search with the settings of a preset. The given settings override those of the preset."""
    from pivotal.searches import SEARCHES

    cls = SEARCHES.get(name)
    return settled(build(cls, {**preset_of(cls, preset), **given}), steps)


def preset_values(name: str, preset: str | None) -> dict[str, Values]:
    """The setting `values` of a question, if the preset states it."""
    from pivotal.searches import SEARCHES

    stated = SEARCHES.get(name).preset_values if name in SEARCHES else {}
    return {} if preset is None or preset not in stated else {"values": stated[preset]}


def bounded(search: Search) -> Search:
    """The same search with a bound on KL, for a problem with sentences that must stay."""
    if not hasattr(search, "max_kl"):
        raise PivotalError(
            f"--keep needs a bound on KL, but the search '{search.name}' has none. Use another search, or leave "
            "--keep out.",
            "keep",
        )
    return search if search.max_kl is not None else replace(search, max_kl=KEEP_KL)  # type: ignore[type-var]


def settled(search: Search, steps: Steps) -> Search:
    """The same search with `max_units` as a number, so that run folders and studies store that number."""
    if getattr(search, "max_units", 0) is not None:
        return search
    return replace(search, max_units=MAX_UNITS[steps])  # type: ignore[type-var]
