"""A comparison of searches on one question: a study over searches and numbers of units."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from pivotal.errors import PivotalError
from pivotal.jobs.study.recipe import Recipe, parse_recipe
from pivotal.searches import SEARCHES
from pivotal.searches.base import check_runs

_MOST_SIZES = 1000


def comparison(
    searches: Sequence[str],
    sizes: Sequence[int],
    settings: Mapping[str, Any],
    *,
    options: Sequence[str] = (),
    runs: int = 3,
    seed: int = 0,
) -> Recipe:
    """The recipe of a comparison of `searches`, each a name or NAME@PRESET, at several numbers of units.

    `settings` are those of the question, and options for every search that has them. `options`, written
    SEARCH.NAME=VALUE, are those of one search.
    """
    check_runs(runs, seed)
    for label in searches:  # here, because an error of the recipe would name a line that nobody wrote
        SEARCHES.get(label.partition("@")[0])
    own = _options_of_searches(options, searches)
    asked = [str(settings[name]) for name in ("phenomenon", "steps", "model") if name in settings]
    content = {
        "name": "-".join(["compare", *asked]),
        "about": "Searches compared at several numbers of units: flips and KL on held-out pairs, and cost.",
        "runs": runs,
        "seed": seed,
        "defaults": {**settings, "evidence": "none", "controls": 0},
        "grid": {"search": [_entry(label, own[label]) for label in searches], "max_units": list(sizes)},
        "table": {"kind": "frontier", "across": "max_units"},
    }
    return parse_recipe(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), "the comparison")


def sizes_of(text: str) -> tuple[int, ...]:
    """`1..10`, `5`, `1,3,5` or a mixture, as numbers of units in ascending order."""
    sizes: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})\s*(?:\.\.\s*(\d{1,9})\s*)?", part, re.ASCII)
        low, high = sorted(int(number) for number in (match[1], match[2] or match[1])) if match else (0, 0)
        if low < 1 or high - low >= _MOST_SIZES:
            raise PivotalError(
                f"Numbers of units are written 1..10, 5 or 1,3,5, up to {_MOST_SIZES:,} in a range, not '{text}'."
            )
        sizes |= set(range(low, high + 1))
    return tuple(sorted(sizes))


def _entry(label: str, options: Mapping[str, str]) -> dict[str, str]:
    """An entry of the axis `search`."""
    name, at, preset = label.partition("@")
    return {"label": label, "search": name, **({"preset": preset} if at else {}), **options}


def _options_of_searches(options: Sequence[str], labels: Sequence[str]) -> dict[str, dict[str, str]]:
    own: dict[str, dict[str, str]] = {label: {} for label in labels}
    for text in options:
        key, equals, value = text.partition("=")
        label, _, name = (part.strip() for part in key.partition("."))
        if not equals or not name or label not in own:
            raise PivotalError(
                f"An option is written -o SEARCH.NAME=VALUE, with one of {', '.join(labels)}, not '{text}'."
            )
        own[label][name] = value
    return own
