"""A recipe: a YAML file that says what a study runs and how its rows are shown. Read here; nothing is loaded yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from pivotal.errors import PivotalError, did_you_mean
from pivotal.jobs.study.layout import TableLayout
from pivotal.jobs.study.shipped import shipped
from pivotal.jobs.study.yaml_lines import Place, parse
from pivotal.options import build, options_of

LABEL = "label"


@dataclass(frozen=True)
class Resources:
    """What a batch of runs is given; Ray reserves it, and torch uses so many threads wherever the batch runs."""

    cpus: int | None = None
    """CPU cores, and threads of torch; where nothing is said, as many as torch takes, and 1 on Ray."""
    gpus: float = 0.0
    """GPUs, or a share of one (0.5: two batches at a time on each)."""
    memory: float | None = None
    """Gigabytes of main memory that Ray reserves."""
    retries: int = 2
    """How often a batch is begun again, from its checkpoint, when the worker that had it dies."""

    def __post_init__(self) -> None:
        for name, least in (("cpus", 1), ("gpus", 0), ("memory", 0), ("retries", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise PivotalError(f"'{name}' must be {least} or more, but it is {value:g}.", name)


@dataclass(frozen=True)
class Top:
    """The keys of a recipe that are plain values."""

    name: str
    """What the study is called."""
    about: str = ""
    """What it shows, in a sentence or two."""
    runs: int = 1
    """Runs of each cell, with the seeds S, S+1, …"""
    seed: int = 0
    """S; it decides the split as well."""
    at_once: int | None = None
    """Runs of a cell that share one batch; all of them if nothing is said."""


@dataclass(frozen=True)
class Draft:
    """A cell as it is written: labels by axis, and settings that are still to be checked."""

    label: dict[str, str]
    settings: dict[str, Any]
    places: Mapping[str, str] = field(default_factory=dict)
    """Where each setting is written, for messages."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """What holds where the cell says nothing; an option of a search, for the searches that have it."""

    @property
    def name(self) -> str:
        return ", ".join(self.label.values())


@dataclass(frozen=True)
class Recipe:
    """What a recipe says."""

    top: Top
    drafts: tuple[Draft, ...]
    table: TableLayout = field(default_factory=TableLayout)
    """How the rows are shown."""
    resources: Resources = field(default_factory=Resources)
    text: str = ""
    source: str = ""

    @property
    def name(self) -> str:
        return self.top.name

    @property
    def about(self) -> str:
        return self.top.about


def read_recipe(path: str | Path) -> Recipe:
    """The recipe of a file, or one that comes with the package, by its name."""
    named, path = shipped(), Path(path)
    if str(path) in named and not path.is_file():
        path = named[str(path)]
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise PivotalError(
            "A study needs a recipe, a YAML file or the name of one that comes with pivotal, but there is no "
            f"{path}.{did_you_mean(str(path), named)}"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise PivotalError(f"The recipe {path} cannot be read: {error}.") from None
    return parse_recipe(text, str(path))


def parse_recipe(text: str, source: str = "the recipe") -> Recipe:
    """The recipe of a YAML text; PivotalError with the line, the rule and the cure."""
    content, place = parse(text, source)
    keys = [option.name for option in options_of(Top)] + ["defaults", "grid", "also", "table", "resources"]
    content = _mapping(content, place, "A recipe")
    _check_keys(content, keys, place)
    parts = {
        key: content.pop(key) for key in ("defaults", "grid", "also", "table", "resources") if key in content
    }
    top = _build(Top, content, place, "a recipe")
    if not top.name.strip():
        raise PivotalError(f"{place.within('name')}: a study needs a name, but it has none.")
    for key, number, least in (("runs", top.runs, 1), ("at_once", top.at_once, 1), ("seed", top.seed, 0)):
        if number is not None and number < least:
            raise PivotalError(f"{place.within(key)}: '{key}' is {least} or more, but it is {number}.")
    resources_at = place.within("resources")
    resources = _mapping(parts.get("resources", {}), resources_at, "'resources'")
    _check_keys(resources, [option.name for option in options_of(Resources)], resources_at)
    drafts = [
        *_grid(parts.get("grid"), place.within("grid")),
        *_also(parts.get("also", []), place.within("also")),
    ]
    if not drafts:
        raise PivotalError(f"{place}: a study needs cells, but neither 'grid' nor 'also' has any.")
    table_at = place.within("table")
    shown = _mapping(parts.get("table", {}), table_at, "'table'")
    _check_keys(shown, [option.name for option in options_of(TableLayout)], table_at)
    table = _build(TableLayout, shown, table_at, "'table'")
    axes = {axis for draft in drafts for axis in draft.label}
    if table.pool is not None and table.pool not in axes:
        raise PivotalError(
            f"{table_at.within('pool')}: 'pool' names an axis of the cells, but '{table.pool}' is none."
            + did_you_mean(table.pool, axes)
        )
    defaults_at = place.within("defaults")
    defaults = _mapping(parts.get("defaults", {}), defaults_at, "'defaults'")
    return Recipe(
        top=top,
        drafts=tuple(_over(defaults, defaults_at, draft) for draft in drafts),
        table=table,
        resources=_build(Resources, resources, resources_at, "'resources'"),
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
        choices = [_choice(axis, entry, at.within(i)) for i, entry in enumerate(entries)]
        labels = [choice.label[axis] for choice in choices]
        for i, label in enumerate(labels):
            if label in labels[:i]:
                raise PivotalError(
                    f"{at.within(i)}: the entries of '{axis}' need different labels, but '{label}' is there twice. "
                    "Give one a 'label'."
                )
        axes.append(choices)
    return [_joined(chosen) for chosen in product(*axes)] if axes else []


def _choice(axis: str, entry: Any, place: Place) -> Draft:
    """One entry of an axis: a value of the setting that the axis is named after, or settings with a label."""
    if not isinstance(entry, dict):
        return Draft({axis: _text(entry)}, {_spelt(axis): entry}, {_spelt(axis): str(place)})
    settings = dict(entry)
    label = settings.pop(LABEL, None)
    if label is None:
        label = ", ".join(_text(value) for value in settings.values())
    if not isinstance(label, str | int | float) or not str(label):
        raise PivotalError(f"{place}: an entry of '{axis}' has a text as its 'label', not {label!r}.")
    places = {_spelt(key): str(place.within(key)) for key in settings}
    return Draft({axis: _text(label)}, {_spelt(key): value for key, value in settings.items()}, places)


def _spelt(setting: str) -> str:
    """One spelling, so that max-units in one axis and max_units in another are seen to be the same."""
    return setting.replace("-", "_")


def _also(entries: Any, place: Place) -> list[Draft]:
    if not isinstance(entries, list):
        raise PivotalError(
            f"{place}: 'also' is a list of cells, each a mapping of settings, not {entries!r}."
        )
    drafts = []
    for i, entry in enumerate(entries):
        at = place.within(i)
        settings = _mapping(entry, at, "A cell")
        label = settings.pop(LABEL, None) or {key: _text(value) for key, value in settings.items()}
        if not isinstance(label, dict):
            label = {"cell": label}
        places = {key: str(at.within(key)) for key in settings}
        drafts.append(Draft({str(axis): _text(value) for axis, value in label.items()}, settings, places))
    return drafts


def _joined(parts: Sequence[Draft]) -> Draft:
    label: dict[str, str] = {}
    settings: dict[str, Any] = {}
    places: dict[str, str] = {}
    for part in parts:
        if twice := sorted(set(settings) & set(part.settings)):
            raise PivotalError(
                f"{part.places[twice[0]]}: a setting belongs to one axis of 'grid', but '{twice[0]}' is in two of them "
                f"(the other at {places[twice[0]]})."
            )
        label |= part.label
        settings |= part.settings
        places |= part.places
    return Draft(label, settings, places)


def _over(defaults: Mapping[str, Any], place: Place, draft: Draft) -> Draft:
    places = {key: str(place.within(key)) for key in defaults}
    return replace(draft, defaults=defaults, places={**places, **draft.places})


def _mapping(value: Any, place: Place, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise PivotalError(f"{place}: {what} is a mapping, `key: value`, but it is {value!r}.")
    for key in value:
        if not isinstance(key, str):
            raise PivotalError(f"{place}: {what} has texts as keys, but {key!r} is none. Put it in quotes.")
    return dict(value)


def _check_keys(content: Mapping[str, Any], known: Sequence[str], place: Place) -> None:
    for key in content:
        if key not in known:
            raise PivotalError(
                f"{place.within(key)}: there is no key '{key}' here.{did_you_mean(key, known)}"
            )


def _build(cls: type[Any], values: Mapping[str, object], place: Place, what: str) -> Any:
    """An instance of `cls`, of which messages speak as `what`: nobody who writes a recipe knows our classes."""
    try:
        return build(cls, values)
    except PivotalError as error:
        said = str(error).replace(f"'{cls.__name__}'", what)
        raise PivotalError(f"{place.within(error.field) if error.field else place}: {said}") from None


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return str(value)
