"""Searches: algorithms that solve a Problem. Each file in this folder adds one search."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from pivotal.errors import PivotalError
from pivotal.options import build, options_of, preset_of
from pivotal.problem.kept import is_text
from pivotal.registry import Registry
from pivotal.searches.attribution import Attribution
from pivotal.searches.base import Discovery, Progress, Search
from pivotal.searches.exchange import Exchange
from pivotal.searches.greedy import Greedy
from pivotal.searches.learned import LearnedMask
from pivotal.searches.reinforce import Reinforce
from pivotal.units import KEEP_CHANGE, KEEP_KL, MAX_UNITS, Steps, Values

__all__ = ["Attribution", "Discovery", "Exchange", "Greedy", "LearnedMask", "Progress", "Reinforce", "Search"]

SEARCHES: Registry[Search] = Registry("searches", __name__, Search)  # type: ignore[type-abstract]


def default_search(preset: str | None, given: Iterable[str]) -> str:
    """The search if none is named: `exchange`, or `learned` for a preset or settings that only `learned` has."""
    has = {option.name for option in options_of(SEARCHES.get("exchange"))}
    only = {option.name for option in options_of(SEARCHES.get("learned"))} - has
    return "learned" if preset is not None or only.intersection(given) else "exchange"


def choose(name: str, preset: str | None, given: Mapping[str, object]) -> Search:
    """The search with the settings of a preset. The given settings override those of the preset."""
    cls = SEARCHES.get(name)
    return build(cls, {**preset_of(cls, preset), **given})


def preset_values(name: str, preset: str | None) -> dict[str, Values]:
    """The setting `values` of a question, if the preset states it."""
    stated = SEARCHES.get(name).preset_values if name in SEARCHES else {}
    return {} if preset is None or preset not in stated else {"values": stated[preset]}


def bounded(search: Search, keep: Iterable[str]) -> Search:
    """The same search with bounds for what must stay: on the KL of text, and on the change of questions."""
    texts = {is_text(name) for name in keep}
    needed = {"max_kl": KEEP_KL} if True in texts else {}
    needed |= {"max_change": KEEP_CHANGE} if False in texts else {}
    if any(not hasattr(search, name) for name in needed):
        raise PivotalError(
            f"--keep needs a search with bounds, but the search '{search.name}' has none. Use another search, or "
            "leave --keep out.",
            "keep",
        )
    missing = {name: bound for name, bound in needed.items() if getattr(search, name) is None}
    return replace(search, **missing)  # type: ignore[type-var]


def settled(search: Search, steps: Steps) -> Search:
    """The same search with `max_units` as a number, so that run folders and studies store that number."""
    if getattr(search, "max_units", 0) is not None:
        return search
    return replace(search, max_units=MAX_UNITS[steps])  # type: ignore[type-var]
