"""Sites, units, and the numbering of the units that a search covers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from pivotal.errors import PivotalError, did_you_mean

Steps = Literal["single", "every"]
"""The steps at which units are edited: at the cue only, or at every step of the prefix."""

Values = Literal["unbounded", "natural", "interchange"]
"""What units may be set to: anything that the model can compute with; values inside the natural range of each unit, the
1st to 99th percentile of its own states at the edited steps; or, pair by pair, what they are in the counterfactual
prefix."""

KEEP_KL = 0.02
"""The bound on the KL after sentences that must stay, if the user gives none."""

MAX_UNITS: dict[Steps, int] = {"every": 4, "single": 5}
"""The most units that a search may use by default; the paper ends up with about these numbers (3.3 and 5)."""


@dataclass(frozen=True, slots=True)
class Site:
    """A named activation with a known number of units, e.g. `hidden.0`."""

    name: str
    width: int
    """The number of units."""
    first: int = 1
    """The paper's number of the first unit: layer 1 starts at 1, layer 2 of a 650-unit LSTM at 651."""
    bounds: tuple[float, float] | None = None
    """The range of values that the model itself can reach."""
    size: int = 1
    """The number of coordinates of a unit: 1, or the width of an attention head. They are replaced together."""
    within: str = ""
    """The site whose units are the single coordinates of this site, if any. The pattern `all` selects that site."""

    @property
    def coordinates(self) -> int:
        """The number of coordinates of all units."""
        return self.width * self.size

    @property
    def kind(self) -> str:
        """The name without the layer, e.g. `hidden`."""
        return self.name.rpartition(".")[0] or self.name


class Unit(msgspec.Struct, frozen=True, order=True, omit_defaults=True, forbid_unknown_fields=True):
    """A unit of a site: one coordinate, or several that are replaced together.

    `index` counts from 0 within the site; `number` is the paper's number, which counts from 1 through the layers.
    """

    site: str
    index: int
    number: int
    size: int = 1
    """The number of coordinates."""

    def __str__(self) -> str:
        return f"{self.site}:{self.index}"


@dataclass(frozen=True, slots=True)
class UnitSpace:
    """The ordered sites that a search covers. Their units have the flat ids 0 to len - 1.

    A mask has one entry per unit, and values have one entry per coordinate, in the same order.
    """

    sites: tuple[Site, ...]

    def __post_init__(self) -> None:
        if not self.sites:
            raise PivotalError(
                "A search needs at least one site, but none was chosen. Name some with --sites."
            )
        names = [site.name for site in self.sites]
        if len(set(names)) != len(names):
            raise PivotalError(f"Every site may be named once, but the sites are {', '.join(names)}.")
        for site in self.sites:
            if site.within in names:
                raise PivotalError(
                    f"A coordinate may belong to one unit, but {site.name} and {site.within} have the same ones. "
                    "Choose one of the two."
                )

    def __len__(self) -> int:
        return sum(site.width for site in self.sites)

    def __str__(self) -> str:
        return f"{len(self):,} units in {pattern_of(self.sites)}"

    def __iter__(self) -> Iterator[Unit]:
        return (self.unit(flat) for flat in range(len(self)))

    @property
    def coordinates(self) -> int:
        """The number of coordinates of all units."""
        return sum(site.coordinates for site in self.sites)

    @property
    def plain(self) -> bool:
        """Whether every unit is a single coordinate, so that masks and values have the same shape."""
        return all(site.size == 1 for site in self.sites)

    def slice_of(self, name: str) -> slice | None:
        """The flat ids of a site's units; None if the search does not cover the site."""
        start = 0
        for site in self.sites:
            if site.name == name:
                return slice(start, start + site.width)
            start += site.width
        return None

    def coordinates_of(self, name: str) -> slice:
        """The positions of a site's coordinates among all coordinates."""
        start = 0
        for site in self.sites:
            if site.name == name:
                return slice(start, start + site.coordinates)
            start += site.coordinates
        raise PivotalError(
            f"The sites are {', '.join(site.name for site in self.sites)}; there is no {name}."
        )

    def unit(self, flat: int) -> Unit:
        """The unit with a flat id."""
        start = 0
        for site in self.sites:
            if start <= flat < start + site.width:
                index = flat - start
                return Unit(site.name, index, site.first + index, site.size)
            start += site.width
        raise PivotalError(f"Unit ids run from 0 to {len(self) - 1}, but {flat} was given.")

    def flat(self, unit: Unit) -> int:
        """The flat id of a unit. Raises PivotalError if the unit is not among the sites."""
        where = self.slice_of(unit.site)
        if where is None:
            raise PivotalError(
                f"Unit {unit} lies outside the sites {', '.join(s.name for s in self.sites)}. "
                "Include its site, or apply the intervention to the model that it was found in."
            )
        flat = where.start + unit.index
        if not 0 <= unit.index < where.stop - where.start:
            raise PivotalError(f"Site {unit.site} has {where.stop - where.start} units; there is no {unit}.")
        if (size := self.unit(flat).size) != unit.size:
            raise PivotalError(
                f"Units of {unit.site} have {size} coordinates here, but {unit} has {unit.size}. "
                "Apply the intervention to the model that it was found in."
            )
        return flat

    def places(self, unit: Unit) -> range:
        """The positions of a unit's coordinates among all coordinates."""
        where = self.coordinates_of(unit.site)
        start = where.start + unit.index * unit.size
        return range(start, start + unit.size)

    def bounds(self) -> tuple[list[float], list[float]]:
        """The lower and upper bound of each coordinate's value; infinite where the site has no bounds."""
        low: list[float] = []
        high: list[float] = []
        for site in self.sites:
            a, b = site.bounds or (float("-inf"), float("inf"))
            low += [a] * site.coordinates
            high += [b] * site.coordinates
        return low, high


_PATTERN = re.compile(r"(?P<kind>[A-Za-z_][\w\-]*)(?:\.(?P<from>\d+)(?:-(?P<to>\d+))?)?")


def select_sites(available: Sequence[Site], pattern: str | Iterable[str]) -> tuple[Site, ...]:
    """The sites that a pattern selects, in the model's order.

    A pattern is `all` (every coordinate once), a kind (`hidden`), a site (`hidden.0`), a range (`mlp.3-8`), or several
    of these separated by commas.
    """
    parts = pattern.split(",") if isinstance(pattern, str) else list(pattern)
    wanted: set[str] = set()
    for part in (p.strip() for p in parts):
        _check_range(available, part)
        matched = {site.name for site in available if _matches(site, part)}
        if not matched:
            names = [site.name for site in available]
            raise PivotalError(
                f"A site pattern must match a site of the model, but {part!r} matches none."
                + did_you_mean(part, [*names, *dict.fromkeys(site.kind for site in available)])
            )
        wanted |= matched
    return tuple(site for site in available if site.name in wanted)


def pattern_of(sites: Iterable[Site]) -> str:
    """The pattern that selects these sites, such as `hidden.0-1` or `mlp.3-8, resid.2`."""
    levels: dict[str, list[list[int]]] = {}
    for site in sites:
        kind, _, level = site.name.rpartition(".")
        if not kind or not level.isdigit():
            levels[site.name] = []
            continue
        ranges = levels.setdefault(kind, [])
        if ranges and ranges[-1][1] + 1 == int(level):
            ranges[-1][1] += 1
        else:
            ranges.append([int(level), int(level)])
    return ", ".join(
        name
        for kind, ranges in levels.items()
        for name in ([f"{kind}.{a}" if a == b else f"{kind}.{a}-{b}" for a, b in ranges] or [kind])
    )


def _check_range(available: Sequence[Site], pattern: str) -> None:
    """Refuse a range that leaves the model's layers. A layer inside the range may lack such a site."""
    found = _PATTERN.fullmatch(pattern)
    if found is None or found["to"] is None or found["kind"] not in {site.kind for site in available}:
        return
    kind, first, last = found["kind"], int(found["from"]), int(found["to"])
    levels = [int(level) for site in available if (level := site.name.rpartition(".")[2]).isdigit()]
    if not levels:
        return
    low, high = min(levels), max(levels)
    if not low <= first <= last <= high:
        raise PivotalError(
            f"A range of sites ascends within the model's layers, {low} to {high}, but {pattern!r} does not. "
            f"Use {kind}.{low}-{high}, or a part of it."
        )


def _matches(site: Site, pattern: str) -> bool:
    if pattern == "all":
        return not site.within
    if pattern == site.name:
        return True
    found = _PATTERN.fullmatch(pattern)
    if found is None or found["kind"] != site.kind:
        return False
    if found["from"] is None:
        return True
    level = site.name.rpartition(".")[2]
    if not level.isdigit():
        return False
    return int(found["from"]) <= int(level) <= int(found["to"] or found["from"])
