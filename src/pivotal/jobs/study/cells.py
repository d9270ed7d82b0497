"""The cells of a study: a question and a search with all of its settings, to be run with so many seeds."""

from __future__ import annotations

import dataclasses
import fnmatch
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pivotal.errors import PivotalError, did_you_mean
from pivotal.jobs.find import Question
from pivotal.jobs.study.recipe import Draft, Recipe
from pivotal.models import DTYPES
from pivotal.options import build, options_of
from pivotal.records.serial import plain
from pivotal.searches import SEARCHES, Search
from pivotal.searches.choosing import choose
from pivotal.units import Steps

_ALLOWED = {"steps": get_args(Steps), "split": ("random", "lexical"), "dtype": (*DTYPES, None)}


@dataclass(frozen=True)
class Asked:
    """The settings of a cell that are not those of its search."""

    model: str = "wiki-lstm"
    phenomenon: str = "number-agreement"
    steps: str = "every"
    sites: str = "all"
    split: str = "random"
    test: int | float | None = None
    priming: str | None = None
    dtype: str | None = None
    search: str = "learned"
    preset: str | None = None
    runs: int | None = None
    at_once: int | None = None
    batch_nodes: int | None = None
    ablation: bool = False


_NOT_ASKED = ("search", "preset", "runs", "at_once", "batch_nodes", "ablation")


@dataclass(frozen=True)
class Cell:
    """What is run for one entry of the table."""

    label: Mapping[str, str]
    question: Question
    """Its seed is the first of the study; a batch has its own."""
    search: Search
    preset: str | None
    seeds: range
    at_once: int
    batch_nodes: int | None = None
    ablation: bool = False
    """Whether to say of each unit if single-unit ablation would have found it."""

    @property
    def name(self) -> str:
        return ", ".join(self.label.values())

    @property
    def options(self) -> dict[str, Any]:
        return dataclasses.asdict(self.search) if dataclasses.is_dataclass(self.search) else {}

    @property
    def key(self) -> str:
        """Names what decides the results, the seed aside: not the labels, the preset or how the runs are batched."""
        decides = {**dataclasses.asdict(self.question), "search": self.search.name, "options": self.options}
        del decides["seed"]
        text = json.dumps(plain(decides), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:10]

    @property
    def slug(self) -> str:
        """A name for a folder: readable, and of this cell alone."""
        words = re.sub(r"[^\w.]+", "-", self.name, flags=re.ASCII).strip("-.").lower()[:60].rstrip("-.")
        return f"{words or 'cell'}-{self.key}"

    def matches(self, pattern: str) -> bool:
        """Whether `pattern` is part of the name, or fits it where it has a * or a ?; capitals do not count."""
        name, wanted = self.name.lower(), pattern.lower()
        return fnmatch.fnmatchcase(name, wanted if set("*?[") & set(wanted) else f"*{wanted}*")


def cells_of(recipe: Recipe, runs: int | None = None) -> tuple[Cell, ...]:
    """The cells of a recipe, every setting checked; `runs` stands for the number of runs that it says."""
    cells = [_cell(draft, recipe, runs) for draft in recipe.drafts]
    _check_defaults(recipe, cells)
    keys: dict[str, Cell] = {}
    for cell in cells:
        if (twin := keys.setdefault(cell.key, cell)) is not cell:
            raise PivotalError(
                f"{recipe.source}: every cell must ask something else, but '{twin.name}' and '{cell.name}' have the "
                "same settings. Take one away."
            )
    names = [cell.name for cell in cells]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise PivotalError(
            f"{recipe.source}: cells need different names, but two are '{twice[0]}'. Give one a 'label'."
        )
    return tuple(cells)


def chosen(cells: Sequence[Cell], pattern: str | None) -> tuple[Cell, ...]:
    if pattern is None:
        return tuple(cells)
    found = tuple(cell for cell in cells if cell.matches(pattern))
    if not found:
        raise PivotalError(
            f"--only names cells by a part of their name, but none fits '{pattern}'."
            + did_you_mean(pattern, [cell.name for cell in cells])
        )
    return found


def _cell(draft: Draft, recipe: Recipe, runs: int | None) -> Cell:
    known = {option.name for option in options_of(Asked)}
    settings, defaults = _named(draft.settings), _named(draft.defaults)
    mine = {key: value for key, value in {**defaults, **settings}.items() if key in known}
    where = _Where(recipe, draft)
    try:
        asked = build(Asked, mine)
    except PivotalError as error:
        raise where.error(error.field, f"{error}".replace("of 'Asked'", "of a cell")) from None
    for name, allowed in _ALLOWED.items():
        value = getattr(asked, name)
        if value not in allowed:
            raise where.error(
                name, f"there are no {name} '{value}'.{did_you_mean(value, filter(None, allowed))}"
            )
    for name in ("runs", "at_once", "batch_nodes"):
        if (number := getattr(asked, name)) is not None and number < 1:
            raise where.error(name, f"'{name}' is 1 or more, but it is {number}.")
    number = runs or asked.runs or recipe.top.runs
    seed = recipe.top.seed
    fields = {k: v for k, v in dataclasses.asdict(asked).items() if k not in _NOT_ASKED}
    return Cell(
        label=draft.label,
        question=Question(**fields, seed=seed, split_seed=seed),
        search=_search(asked, settings, defaults, where),
        preset=asked.preset,
        seeds=range(seed, seed + number),
        at_once=asked.at_once or recipe.top.at_once or number,
        batch_nodes=asked.batch_nodes,
        ablation=asked.ablation,
    )


def _search(asked: Asked, settings: Mapping[str, Any], defaults: Mapping[str, Any], where: _Where) -> Search:
    try:
        cls = SEARCHES.get(asked.search)
    except PivotalError as error:
        raise where.error("search", str(error)) from None
    known = {option.name for option in options_of(Asked)}
    its = {option.name for option in options_of(cls)}
    options = {key: value for key, value in defaults.items() if key in its - known}
    options |= {key: value for key, value in settings.items() if key not in known}
    for key in options:
        if key not in its:
            raise where.error(
                key,
                f"'{key}' is neither a setting of a cell nor an option of the search '{asked.search}'."
                + did_you_mean(key, {*known, *its, "label"}),
            )
    try:
        return choose(asked.search, asked.preset, options, asked.steps)
    except PivotalError as error:
        raise where.error(error.field or "preset", str(error)) from None


def _check_defaults(recipe: Recipe, cells: Sequence[Cell]) -> None:
    """A default that no cell takes is a slip."""
    draft = recipe.drafts[0]
    classes: list[type] = [Asked, *(type(cell.search) for cell in cells)]
    known = {option.name for cls in classes for option in options_of(cls)}
    for key in _named(draft.defaults):
        if key not in known:
            searches = ", ".join(sorted({cell.search.name for cell in cells}))
            raise PivotalError(
                f"{_Where(recipe, draft).place(key)}: '{key}' is neither a setting of a cell nor an option of a search "
                f"of this recipe ({searches}).{did_you_mean(key, known)}"
            )


def _named(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key.replace("-", "_"): value for key, value in settings.items()}


@dataclass(frozen=True)
class _Where:
    """Says in which line of the recipe a setting stands, and of which cell."""

    recipe: Recipe
    draft: Draft

    def place(self, setting: str) -> str:
        places = self.draft.places
        return places.get(setting) or places.get(setting.replace("_", "-")) or self.recipe.source

    def error(self, setting: str, text: str) -> PivotalError:
        return PivotalError(f"{self.place(setting)} (cell '{self.draft.name}'): {text}")
