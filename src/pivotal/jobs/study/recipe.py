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
from pivotal.yaml_places import Place, parse

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
    content, place = parse(text, source, "a recipe")
    content = _mapping(content, place, "A recipe")
    known = [*(option.name for option in options_of(Top)), *_PARTS]
    if unknown := [key for key in content if key not in known]:
        key = unknown[0]
        raise PivotalError(f"{place.within(key)}: there is no key '{key}' here.{did_you_mean(key, known)}")
    parts = {key: content.pop(key) for key in _PARTS if key in content}
    top = _build(Top, content, place, "a recipe")
    resources = _part(Resources, parts, "resources", place)
    drafts = [
        *_grid(parts.get("grid"), place.within("grid")),
        *_also(parts.get("also", []), place.within("also")),
    ]
    if not drafts:
        raise PivotalError(f"{place}: a study needs cells, but neither 'grid' nor 'also' has any.")
    table = _part(TableLayout, parts, "table", place)
    axes = {axis for draft in drafts for axis in draft.label}
    for key, axis in (("pool", table.pool), ("across", table.across)):
        if axis is not None and axis not in axes:
            raise PivotalError(
                f"{place.within('table', key)}: '{key}' must name an axis of the cells, but '{axis}' is not one."
                + did_you_mean(axis, axes)
            )
    defaults, places = _settings(parts.get("defaults", {}), place.within("defaults"), "'defaults'")
    return Recipe(
        **vars(top),
        drafts=tuple(
            replace(draft, defaults=defaults, places={**places, **draft.places}, source=source)
            for draft in drafts
        ),
        table=table,
        resources=resources,
        text=text,
        source=source,
    )


def _grid(grid: Any, place: Place) -> list[Draft]:
    """The product of the axes, the last one fastest."""
    if grid is None:
        return []
    axes = []
    for axis, entries in _mapping(grid, place, "'grid'").items():
        at = place.within(axis)
        if not isinstance(entries, list) or not entries:
            raise PivotalError(f"{at}: an axis of 'grid' is a list of values, but '{axis}' is {entries!r}.")
        axes.append([_choice(axis, entry, at.within(i)) for i, entry in enumerate(entries)])
    if (cells := prod(map(len, axes))) > MOST_CELLS:
        raise PivotalError(f"{place}: a study has at most {MOST_CELLS:,} cells, not {cells:,}. Split it.")
    return [_joined(chosen) for chosen in product(*axes)] if axes else []


def _choice(axis: str, entry: Any, place: Place) -> Draft:
    """One entry of an axis: a value of the setting with the name of the axis, or settings with a label."""
    if not isinstance(entry, dict):
        setting = axis.replace("-", "_")
        return Draft({axis: _text(entry)}, {setting: entry}, {setting: str(place)})
    settings, places = _settings(entry, place, f"An entry of '{axis}'")
    label = settings.pop(LABEL, None)
    if label is None:
        label = ", ".join(_text(value) for value in settings.values())
    return Draft({axis: _text(label)}, settings, places)


def _settings(given: Any, place: Place, what: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Settings and their places, both by name with underscores."""
    settings: dict[str, Any] = {}
    places: dict[str, str] = {}
    for key, value in _mapping(given, place, what).items():
        name, at = key.replace("-", "_"), str(place.within(key))
        if name in settings:
            raise PivotalError(f"{at}: '{name}' is also at {places[name]}. Remove one.")
        settings[name], places[name] = value, at
    return settings, places


def _also(entries: Any, place: Place) -> list[Draft]:
    if not isinstance(entries, list):
        raise PivotalError(f"{place}: 'also' is a list of cells, each a mapping, not {entries!r}.")
    drafts = []
    for i, entry in enumerate(entries):
        settings, places = _settings(entry, place.within(i), "A cell")
        label = settings.pop(LABEL, None) or {key: _text(value) for key, value in settings.items()}
        if not isinstance(label, dict):
            label = {"cell": label}
        drafts.append(Draft({str(axis): _text(value) for axis, value in label.items()}, settings, places))
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


def _mapping(value: Any, place: Place, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise PivotalError(f"{place}: {what} is a mapping, `key: value`, but it is {value!r}.")
    for key in value:
        if not isinstance(key, str):
            raise PivotalError(f"{place}: the keys of {what} are text, but one is {key!r}. Put it in quotes.")
    return dict(value)


def _part(cls: type[T], parts: Mapping[str, Any], key: str, place: Place) -> T:
    """The part of a recipe under `key`, with the fields of `cls`."""
    at = place.within(key)
    return _build(cls, _mapping(parts.get(key, {}), at, f"'{key}'"), at, f"'{key}'")


def _build(cls: type[T], values: Mapping[str, object], place: Place, what: str) -> T:
    try:
        return build(cls, values, what)
    except PivotalError as error:
        raise PivotalError(f"{place.within(error.field) if error.field else place}: {error}") from None


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return str(value)
