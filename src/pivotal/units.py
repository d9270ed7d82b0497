"""Sites, units, and the numbering of the units that a search covers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Literal

import msgspec

from pivotal.errors import PivotalError, did_you_mean

__all__ = ["Site", "Unit", "UnitSpace"]

Steps = Literal["single", "every"]
"""The steps at which units are edited: at the cue only, or at every step of the prefix."""

Objective = Literal["flips", "counterfactual"]
"""What the edited model should do: prefer the other word, or predict at every position what the untouched model
predicts after the counterfactual prefix."""

Values = Literal["unbounded", "natural", "interchange"]
"""What units may be set to: any value; values inside the natural range of each unit, the 1st to 99th percentile of its
own states at the edited steps; or, pair by pair, their states in the counterfactual prefix."""

KEEP_KL = 0.02
"""The bound on the KL of text that must stay, if the user gives none."""
KEEP_CHANGE = 0.02
"""The bound on the change of each question that must stay, if the user gives none."""

MAX_UNITS: dict[Steps, int] = {"every": 4, "single": 5}
"""The most units that a search may use by default; the paper ends up with about these numbers (3.3 and 5)."""


@dataclass(frozen=True, slots=True)
class Site:
    """A named activation with a known number of units, e.g. `hidden.0`."""

    name: str
    width: int
    """The number of units."""
    bounds: tuple[float, float] | None = None
    """The range of values that the model itself can reach."""
    size: int = 1
    """The number of coordinates of a unit: 1, or the width of an attention head. They are replaced together."""
    within: str = ""
    """The site whose activation this site shows in other units, if any: whole attention heads, or the coordinates of
    another basis. The pattern `all` selects that site."""
    basis: str = ""
    """The fingerprint of the basis of a site such as `resid.12@pca`; empty for the model's own units."""

    @property
    def coordinates(self) -> int:
        """The number of coordinates of all units."""
        return self.width * self.size

    @property
    def kind(self) -> str:
        """The name without the layer, e.g. `hidden` or `resid@pca`."""
        own, at, basis = self.name.partition("@")
        return f"{own if self.level is None else own.rpartition('.')[0]}{at}{basis}"

    @property
    def level(self) -> int | None:
        """The number of the layer in the name; None if there is none."""
        level = self.name.partition("@")[0].rpartition(".")[2]
        return int(level) if level.isdigit() else None


class Unit(msgspec.Struct, frozen=True, order=True, omit_defaults=True, forbid_unknown_fields=True):
    """A unit of a site: one coordinate, or several that are replaced together. Its name is `hidden.0:122`."""

    site: str
    index: Annotated[int, msgspec.Meta(ge=0)]
    """From 0 within the site."""
    size: Annotated[int, msgspec.Meta(ge=1)] = 1
    """The number of coordinates."""

    def __str__(self) -> str:
        return f"{self.site}:{self.index}"


@dataclass(frozen=True)
class UnitSpace:
    """The ordered sites that a search covers. Their units have the flat ids 0 to len - 1.

    A mask has one entry per unit, and values have one entry per coordinate, in the same order.
    """

    sites: tuple[Site, ...]

    def __post_init__(self) -> None:
        if not self.sites:
            raise PivotalError("A search needs at least one site, but none was chosen. Name one: --sites.")
        names = [site.name for site in self.sites]
        if len(set(names)) != len(names):
            raise PivotalError(f"Every site may be named once, but the sites are {', '.join(names)}.")
        shown: dict[str, str] = {}
        for name, site in sorted((site.within or site.name, site.name) for site in self.sites):
            if (other := shown.setdefault(name, site)) != site:
                raise PivotalError(
                    f"{site} and {other} have the same coordinates, which may belong to one unit only. Choose one."
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

    @cached_property
    def _placed(self) -> dict[str, tuple[Site, slice, slice]]:
        """The sites by name, with the flat ids of their units and the positions of their coordinates."""
        found = {}
        unit = coordinate = 0
        for site in self.sites:
            end, last = unit + site.width, coordinate + site.coordinates
            found[site.name] = site, slice(unit, end), slice(coordinate, last)
            unit, coordinate = end, last
        return found

    def slice_of(self, name: str) -> slice:
        """The flat ids of a site's units."""
        return self._placed[name][1]

    def coordinates_of(self, name: str) -> slice:
        """The positions of a site's coordinates among all coordinates."""
        return self._placed[name][2]

    def unit(self, flat: int) -> Unit:
        """The unit with a flat id."""
        for site, units, _ in self._placed.values():
            if units.start <= flat < units.stop:
                return Unit(site.name, flat - units.start, site.size)
        raise PivotalError(f"Unit ids run from 0 to {len(self) - 1}, but {flat} was given.")

    def flat(self, unit: Unit) -> int:
        """The flat id of a unit. Raises PivotalError if the unit is not among the sites."""
        if unit.site not in self._placed:
            raise PivotalError(
                f"Unit {unit} is not in the sites {', '.join(s.name for s in self.sites)}. Include its site."
            )
        site, where, _ = self._placed[unit.site]
        if not 0 <= unit.index < site.width:
            raise PivotalError(f"Site {unit.site} has {site.width} units; there is no {unit}.")
        if site.size != unit.size:
            raise PivotalError(
                f"Units of {unit.site} have {site.size} coordinates, but {unit} has {unit.size}. Use its own model."
            )
        return where.start + unit.index

    def places(self, unit: Unit) -> range:
        """The positions of a unit's coordinates among all coordinates."""
        start = self.coordinates_of(unit.site).start + unit.index * unit.size
        return range(start, start + unit.size)

    def bounds(self) -> tuple[list[float], list[float]]:
        """The lower and upper bound of each coordinate's value; infinite where the site has no bounds."""
        free = (float("-inf"), float("inf"))
        ends = [site.bounds or free for site in self.sites for _ in range(site.coordinates)]
        return [low for low, _ in ends], [high for _, high in ends]


_PATTERN = re.compile(r"(?P<kind>.+?)(?:\.(?P<from>\d{1,9})(?:-(?P<to>\d{1,9}))?)?")


def select_sites(available: Sequence[Site], pattern: str | Iterable[str]) -> tuple[Site, ...]:
    """The sites that a pattern selects, in the model's order.

    A pattern is `all` (every coordinate once), a kind (`hidden`), a site (`hidden.0`), a range (`mlp.3-8`), or several
    of these separated by commas. `@` and the name of a basis may follow each of them (`mlp.3-8@pca`).
    """
    wanted: set[str] = set()
    for part in _parts(pattern):
        own, _, basis = part.partition("@")
        basis = basis.partition(":")[0]
        _check_range(available, own)
        matched = {
            site.name
            for site in available
            if site.name.partition("@")[2] == basis and _matches(_plain(site), own)
        }
        if not matched:
            names = [site.name for site in available]
            raise PivotalError(
                f"A site pattern must match a site of the model, but {part!r} matches none."
                + did_you_mean(part, [*names, *dict.fromkeys(site.kind for site in available)])
            )
        wanted |= matched
    return tuple(site for site in available if site.name in wanted)


@dataclass(frozen=True, slots=True)
class InBasis:
    """A site that a pattern asks for in another basis: `resid.12@sae:PATH`."""

    site: Site
    """The model's own site."""
    basis: str
    """The name of the kind of basis."""
    argument: str = ""
    """What follows the colon."""

    @property
    def name(self) -> str:
        """The name of the site in the basis, without the argument."""
        return f"{self.site.name}@{self.basis}"


def sites_in_bases(available: Sequence[Site], pattern: str | Iterable[str]) -> list[InBasis]:
    """The sites that a pattern asks for in another basis."""
    own = [site for site in available if not site.basis]
    found: dict[str, InBasis] = {}
    for part in _parts(pattern):
        where, at, what = part.partition("@")
        if not at:
            continue
        basis, _, argument = what.partition(":")
        sites = select_sites(own, where)
        if argument and len(sites) > 1 and not argument.isdigit():
            raise PivotalError(
                f"A file holds the basis of one site, but {where!r} selects {len(sites)} sites. Name one site before @."
            )
        for site in sites:
            asked = InBasis(site, basis, argument)
            if found.setdefault(asked.name, asked) != asked:
                raise PivotalError(
                    f"{asked.name} is named twice, with {found[asked.name].argument!r} and {argument!r}. Name it once."
                )
    return list(found.values())


def pattern_of(sites: Iterable[Site]) -> str:
    """The pattern that selects these sites, such as `hidden.0-1` or `mlp.3-8, resid.2@pca`."""
    levels: dict[str, list[list[int]]] = {}
    for site in sites:
        ranges = levels.setdefault(site.name if site.level is None else site.kind, [])
        if site.level is None:
            continue
        if ranges and ranges[-1][1] + 1 == site.level:
            ranges[-1][1] += 1
        else:
            ranges.append([site.level, site.level])
    return ", ".join(
        f"{own}{level}{at}{basis}"
        for kind, ranges in levels.items()
        for own, at, basis in [kind.partition("@")]
        for level in ([f".{a}" if a == b else f".{a}-{b}" for a, b in ranges] or [""])
    )


def _parts(pattern: str | Iterable[str]) -> list[str]:
    parts = pattern.split(",") if isinstance(pattern, str) else pattern
    return [part.strip() for part in parts]


def _plain(site: Site) -> Site:
    """The site without its basis. A site in a basis counts as the model's own one: `all@pca` selects it."""
    return replace(site, name=site.name.partition("@")[0], within="") if site.basis else site


def _check_range(available: Sequence[Site], pattern: str) -> None:
    """Refuse a range that leaves the model's layers. A layer inside the range may lack such a site."""
    found = _PATTERN.fullmatch(pattern)
    if found is None or found["to"] is None or found["kind"] not in {site.kind for site in available}:
        return
    kind, first, last = found["kind"], int(found["from"]), int(found["to"])
    levels = [site.level for site in available if site.level is not None]
    if not levels:
        return
    low, high = min(levels), max(levels)
    if not low <= first <= last <= high:
        raise PivotalError(f"{pattern!r} leaves the layers {low} to {high}. Use {kind}.{low}-{high}.")


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
    return site.level is not None and int(found["from"]) <= site.level <= int(found["to"] or found["from"])
