"""Reads recipes. A recipe is a YAML file that states what a study runs and how its results are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, Literal, TypeVar

from pivotal.errors import PivotalError, did_you_mean
from pivotal.files import asset, read_text
from pivotal.options import build, check_least, options_of
from pivotal.yaml_places import Place, compose

LABEL = "label"
MOST_CELLS = 10_000
"""The most cells of a study."""
T = TypeVar("T")


@dataclass(frozen=True)
class TableLayout:
    """The key `table` of a recipe: how the rows of a study are shown."""

    kind: Literal["scores", "units", "frontier"] = "scores"
    """`scores`: a line per cell with means over its runs; `units`: also a table per cell of the units found;
    `frontier`: flips, KL and cost as tables and figures along the axis `across`."""
    pool: str | None = None
    """An axis to pool over, such as the models of one question: a further line takes all its runs together."""
    across: str | None = None
    """An axis whose values become columns: the table of scores then holds only accuracies and flips."""
    least: float = 0.1
    """Units found in a smaller share of the runs are counted, not listed."""

    def __post_init__(self) -> None:
        if not 0 <= self.least <= 1:
            raise PivotalError(f"'least' is a share of the runs, 0 to 1, but it is {self.least:g}.", "least")
        if self.kind == "frontier" and self.across is None:
            raise PivotalError("A frontier needs an axis, such as 'across: max_units', but has none.", "kind")


@dataclass(frozen=True)
class Resources:
    """Resources of a batch. Ray reserves them; the number of threads is also used without Ray."""

    cpus: int | None = None
    """CPU cores, and threads of torch. Default: the default of torch, or 1 on Ray."""
    gpus: float = 0.0
    """GPUs; 0.5 runs two batches at a time on each GPU."""
    memory: float | None = None
    """Gigabytes of main memory that Ray reserves."""
    retries: int = 2
    """How often Ray restarts a batch from its checkpoint after its worker died."""

    def __post_init__(self) -> None:
        check_least(self, cpus=1, gpus=0, memory=0, retries=0)


@dataclass(frozen=True)
class Top:
    """The keys of a recipe that are plain values."""

    name: str
    """The name of the study."""
    about: str = ""
    """What the study shows, in one or two sentences."""
    runs: int = 1
    """Runs of each cell, with the seeds S, S+1, …"""
    seed: int = 0
    """The first seed S, which also decides the split."""
    at_once: int | None = None
    """Runs of a cell that share one batch. Default: all runs."""

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise PivotalError("A study needs a name, but it has none.", "name")
        check_least(self, runs=1, at_once=1, seed=0)


@dataclass(frozen=True)
class Draft:
    """A cell as the recipe states it: labels by axis, and settings that are not yet checked. The names of settings have
    underscores, so that max-units and max_units are the same."""

    label: dict[str, str]
    settings: dict[str, Any]
    places: Mapping[str, str] = field(default_factory=dict)
    """File and line of each setting, for messages."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Settings that apply unless the cell overrides them; options apply to the searches that have them."""
    source: str = ""
    """The file, for messages about what is written nowhere."""

    @property
    def name(self) -> str:
        return ", ".join(self.label.values())

    def error(self, setting: str, text: str) -> PivotalError:
        """An error that names the cell and the line where a setting is written."""
        return PivotalError(f"{self.place(setting)} (cell '{self.name}'): {text}")

    def place(self, setting: str) -> str:
        return self.places.get(setting, self.source)


@dataclass(frozen=True)
class Recipe(Top):
    """The content of a recipe."""

    drafts: tuple[Draft, ...] = ()
    table: TableLayout = field(default_factory=TableLayout)
    """How the rows are shown."""
    resources: Resources = field(default_factory=Resources)
    text: str = ""
    source: str = ""


def shipped() -> dict[str, Path]:
    """The recipes that come with the package, by name."""
    return {path.stem: path for path in sorted(asset("recipes").glob("*.yaml"))}


def read_recipe(path: str | Path, prefix: str = "") -> Recipe:
    """Read a recipe from a file, or by the name of a recipe that comes with the package.

    Recipes whose name begins with `prefix` can be named without it.
    """
    named, path = shipped(), Path(path)
    if prefix:
        named |= {name.removeprefix(prefix): at for name, at in named.items() if name.startswith(prefix)}
    if str(path) in named and not path.is_file():
        path = named[str(path)]
    if not path.exists():
        raise PivotalError(f"There is no recipe {path}, by file or name.{did_you_mean(str(path), named)}")
    if path.is_dir():
        inside = path / "recipe.yaml"
        cure = f"Give {inside}, with --out {path}." if inside.is_file() else "Give a YAML file."
        raise PivotalError(f"A recipe is a YAML file, but {path} is a folder. {cure}")
    return parse_recipe(read_text(path), str(path))


_PARTS: tuple[str, ...] = ("defaults", "grid", "also", "table", "resources")
"""The keys of a recipe that hold more than one value."""


def parse_recipe(text: str, source: str = "the recipe") -> Recipe:
    """The recipe in a YAML text. PivotalError, with the line, if it is not valid."""
    place = compose(text, source, "a recipe")
    given = place.fields([*(option.name for option in options_of(Top)), *_PARTS])
    top = _build(Top, {key: part for key, part in given.items() if key not in _PARTS}, place, "a recipe")
    drafts = [*_grid(given.get("grid")), *_also(given.get("also"))]
    place.require(drafts, "a study needs cells, but neither 'grid' nor 'also' has any.")
    table = _part(TableLayout, given.get("table"))
    axes = {axis for draft in drafts for axis in draft.label}
    for key, axis in (("pool", table.pool), ("across", table.across)):
        if axis is not None:
            rule = f"'{key}' must name an axis of the cells"
            place.within("table", key).require_known(axis, axes, rule)
    defaults, places = _settings(given["defaults"]) if "defaults" in given else ({}, {})
    return Recipe(
        **vars(top),
        drafts=tuple(
            replace(draft, defaults=defaults, places={**places, **draft.places}, source=source)
            for draft in drafts
        ),
        table=table,
        resources=_part(Resources, given.get("resources")),
        text=text,
        source=source,
    )


def _grid(grid: Place | None) -> list[Draft]:
    """The product of the axes, the last one fastest."""
    if grid is None:
        return []
    axes = [
        [_choice(axis, entry) for entry in entries.items("[1, 2]")]
        for axis, entries in grid.entries().items()
    ]
    cells = prod(map(len, axes))
    grid.require(cells <= MOST_CELLS, f"a study has at most {MOST_CELLS:,} cells, not {cells:,}. Split it.")
    return [_joined(chosen) for chosen in product(*axes)]


def _choice(axis: str, entry: Place) -> Draft:
    """One entry of an axis: a value of the setting with the name of the axis, or settings with a label."""
    if not entry.is_mapping:
        setting, value = axis.replace("-", "_"), entry.plain()
        return Draft({axis: str(value)}, {setting: value}, {setting: str(entry)})
    settings, places = _settings(entry)
    label = settings.pop(LABEL, None) or ", ".join(map(str, settings.values()))
    return Draft({axis: str(label)}, settings, places)


def _settings(given: Place) -> tuple[dict[str, Any], dict[str, str]]:
    """Settings and their places, both by name with underscores."""
    settings: dict[str, Any] = {}
    places: dict[str, str] = {}
    for key, value in given.entries().items():
        name = key.replace("-", "_")
        value.require(name not in settings, f"'{name}' is also at {places.get(name)}. Remove one.")
        settings[name], places[name] = value.plain(), str(value)
    return settings, places


def _also(entries: Place | None) -> list[Draft]:
    drafts = []
    for entry in [] if entries is None else entries.items():
        settings, places = _settings(entry)
        label = settings.pop(LABEL, None) or settings
        label = label if isinstance(label, dict) else {"cell": label}
        drafts.append(Draft({axis: str(value) for axis, value in label.items()}, dict(settings), places))
    return drafts


def _joined(parts: Sequence[Draft]) -> Draft:
    whole = Draft({}, {}, {})
    for part in parts:
        if twice := sorted(set(whole.settings) & set(part.settings)):
            raise PivotalError(
                f"{part.places[twice[0]]}: '{twice[0]}' is also in another axis, at {whole.places[twice[0]]}."
            )
        whole = Draft(
            whole.label | part.label, whole.settings | part.settings, {**whole.places, **part.places}
        )
    return whole


def _part(cls: type[T], place: Place | None) -> T:
    """A part of a recipe, with the fields of `cls`."""
    return cls() if place is None else _build(cls, place.entries(), place, place.name)


def _build(cls: type[T], values: Mapping[str, Place], place: Place, what: str) -> T:
    try:
        return build(cls, {key: value.plain() for key, value in values.items()}, what)
    except PivotalError as error:
        raise values.get(error.field, place).error(str(error)) from None
