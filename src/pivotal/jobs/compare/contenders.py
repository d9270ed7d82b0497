"""Reads which searches are compared, with which settings and numbers of units."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pivotal.errors import PivotalError, did_you_mean
from pivotal.options import build, options_of, preset_of, stored_settings
from pivotal.searches import SEARCHES, Search, preset_values
from pivotal.units import Values

_MOST_SIZES = 1000


@dataclass(frozen=True)
class Contender:
    """A search of the comparison. `label` is its name, or `name@preset`."""

    label: str
    search: Search
    values: Values | None = None
    """What units may be set to, if the preset of the search states it; None for the values of the question."""

    def sized(self, size: int) -> Search:
        if "max_units" not in _fields(self.search):
            return self.search
        return dataclasses.replace(self.search, max_units=size)  # type: ignore[type-var]

    def settings(self) -> dict[str, Any]:
        """All settings except the number of units, which the comparison sets."""
        preset = self.label.partition("@")[2] or None
        own = {} if self.values is None else {"values": self.values}
        return {"name": self.search.name, "preset": preset, **own, **changed(self.search, None)}


def changed(search: Search, than: Search | None) -> dict[str, Any]:
    """The settings in which a search differs from `than`, or all of them, without the number of units."""
    here = stored_settings(search)
    here.pop("max_units", None)
    return {name: value for name, value in here.items() if than is None or getattr(than, name) != value}


def contenders(
    names: Sequence[str],
    *,
    common: Mapping[str, Any] | None = None,
    options: Sequence[str] = (),
    same_values: bool = False,
) -> list[Contender]:
    """The named searches (`learned`, `learned@paper`), or all searches if there are no names.

    `common` are settings for every search that has them. `options`, written `SEARCH.NAME=VALUE`, are settings of one
    search and override the common ones. A preset may state what units may be set to, as `paper` does. With
    `same_values`, all searches use the values of the question instead.
    """
    labels = [name.strip() for name in names] or SEARCHES.names()
    for i, label in enumerate(labels):
        if not label:
            raise PivotalError(
                f"Searches are separated by commas, but a name in '{','.join(names)}' is empty."
            )
        if label in labels[:i]:
            raise PivotalError(f"Each search is compared once, but '{label}' is listed twice. Remove one.")
    own = _own_options(options, labels)
    classes = {label: SEARCHES.get(label.partition("@")[0]) for label in labels}
    _check_common(common or {}, classes)
    found = []
    for label, cls in classes.items():
        has = {option.name for option in options_of(cls)}
        shared = {name: value for name, value in (common or {}).items() if name in has}
        preset = label.partition("@")[2] if "@" in label else None
        search = build(cls, preset_of(cls, preset) | shared | own[label])
        stated = {} if same_values else preset_values(cls.name, preset)
        found.append(Contender(label, search, stated.get("values")))
    return found


def sizes_of(text: str) -> tuple[int, ...]:
    """`1..10`, `5`, `1,3,5` or a mixture, as numbers of units in ascending order."""
    sizes: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)\s*(?:\.\.\s*(\d+)\s*)?", part, re.ASCII)
        if not match:
            raise PivotalError(
                f"Numbers of units are written 1..10, 5 or 1,3,5, but '{text}' was given. "
                "They are whole numbers; a range has two dots."
            )
        low, high = sorted(int(number) for number in (match[1], match[2] or match[1]))
        if high - low >= _MOST_SIZES:
            raise PivotalError(
                f"A range covers at most {_MOST_SIZES:,} numbers of units, but it is '{text}'."
            )
        sizes |= set(range(low, high + 1))
    return check_sizes(tuple(sorted(sizes)))


def check_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    ascending = tuple(sorted(set(sizes)))
    if not ascending or ascending[0] < 1:
        least = f"but {ascending[0]} was asked for" if ascending else "but no number of units was given"
        raise PivotalError(f"A set has at least one unit, {least}. Ask for 1 or more, e.g. 1..5.")
    return ascending


def _own_options(options: Sequence[str], labels: Sequence[str]) -> dict[str, dict[str, str]]:
    own: dict[str, dict[str, str]] = {label: {} for label in labels}
    for text in options:
        key, equals, value = text.partition("=")
        label, dot, name = (part.strip() for part in key.partition("."))
        name = name.replace("-", "_")
        if not equals or not dot or not name:
            raise PivotalError(
                "An option of a search is written -o SEARCH.NAME=VALUE, e.g. -o learned.updates=300, "
                f"but '{text}' was given."
            )
        if label not in own:
            raise PivotalError(
                f"An option must be for a search of the comparison, but '{label}' in '{text}' is not listed."
                + did_you_mean(label, labels)
            )
        if name == "max_units":
            raise PivotalError(
                f"All searches get the same numbers of units, but '{text}' sets another number for one of them. "
                "Use --max-units."
            )
        if name in own[label]:
            raise PivotalError(f"'{label}.{name}' was given twice. Give it once.")
        own[label][name] = value
    return own


def _check_common(common: Mapping[str, Any], classes: Mapping[str, type[Search]]) -> None:
    for name in common:
        if not any(option.name == name for cls in classes.values() for option in options_of(cls)):
            raise PivotalError(
                f"None of the searches listed ({', '.join(classes)}) has the option '{name}'. Leave it out."
            )


def _fields(search: Search) -> list[str]:
    return [field.name for field in dataclasses.fields(search)] if dataclasses.is_dataclass(search) else []
