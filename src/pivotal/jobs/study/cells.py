"""The cells of a study: each is a question and a search with its settings, run with several seeds."""

from __future__ import annotations

import dataclasses
import fnmatch
import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

from pivotal.errors import PivotalError, did_you_mean
from pivotal.evidence import CONTROLS
from pivotal.evidence.side_effects import PAIRS
from pivotal.jobs.find import check_controls
from pivotal.jobs.study.recipe import Draft, Recipe
from pivotal.models import list_models, load_model
from pivotal.options import build, check_least, options_of, stored_settings
from pivotal.questions.pairs import PairSet
from pivotal.questions.question import Question
from pivotal.records.evidence import Level
from pivotal.records.serial import plain
from pivotal.searches import SEARCHES, Search, choose, default_search, preset_values, settled
from pivotal.searches.base import check_runs
from pivotal.units import Steps

QUESTION = tuple(option.name for option in options_of(Question) if not option.name.endswith("seed"))
"""The settings of a cell that are its question; the seeds are those of the study."""


@dataclass(frozen=True)
class CellSettings:
    """The settings of a cell that belong neither to its question nor to its search."""

    search: str = ""
    """A name from `pivotal list searches`. Default: exchange, or learned with a preset or an option that only learned
    has."""
    preset: str | None = None
    """A preset of the search."""
    runs: int | None = None
    """Number of runs. Default: the recipe's."""
    at_once: int | None = None
    """Runs that share one batch. Default: the recipe's."""
    batch_nodes: int | None = None
    """Prefixes, times runs, that a transformer computes at once. It limits the memory."""
    ablation: bool = False
    """Whether to say of each unit if single-unit ablation would have found it."""
    known: bool = False
    """Whether to search only if the untouched model knows the phenomenon; otherwise the rows say what it lacks."""
    evidence: Level = "quick"
    """How much evidence is collected for the best run of a batch: none, quick or full."""
    controls: int = CONTROLS
    """Random sets of units that the best run of a batch is compared with."""
    cross: bool = False
    """Whether every other phenomenon of the recipe is asked with the intervention of the best run applied."""
    cross_pairs: int = PAIRS
    """The most pairs of every other phenomenon that are asked."""

    def __post_init__(self) -> None:
        check_least(self, runs=1, at_once=1, batch_nodes=1, cross_pairs=1)
        if self.runs is not None:
            check_runs(self.runs, 0)
        check_controls(self.controls)


SETTINGS = (*QUESTION, *(option.name for option in options_of(CellSettings)))
"""All settings of a cell except the options of its search."""


@dataclass(frozen=True)
class Cell:
    """One entry of the table: what is run for it."""

    label: Mapping[str, str]
    question: Question
    """Its seed is the first one of the study; every batch sets its own."""
    search: Search
    settings: CellSettings
    seeds: range
    at_once: int
    others: tuple[Question, ...] | None = None
    """The phenomena that are asked with the intervention applied, each as a cell that searches it asks."""

    @property
    def name(self) -> str:
        return ", ".join(self.label.values())

    @cached_property
    def options(self) -> dict[str, Any]:
        return stored_settings(self.search)

    @cached_property
    def key(self) -> str:
        """A hash of everything that decides the results except the seed. Labels, preset, batching and evidence are not
        in it."""
        decides = {**stored_settings(self.question), "search": self.search.name, "options": self.options}
        del decides["seed"]
        text = json.dumps(plain(decides), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:10]

    @property
    def loads(self) -> tuple[object, ...]:
        """What decides how its model is loaded."""
        asked = self.question
        return asked.model, asked.dtype, asked.priming, self.settings.batch_nodes

    @property
    def slug(self) -> str:
        """A readable, unique folder name."""
        words = re.sub(r"[^\w.]+", "-", self.name, flags=re.ASCII).strip("-.").lower()[:60].rstrip("-.")
        return f"{words or 'cell'}-{self.key}"

    def matches(self, pattern: str) -> bool:
        """Whether the name contains `pattern` or, if it has wildcards (* ?), matches it; case is ignored."""
        name, wanted = self.name.lower(), pattern.lower()
        return fnmatch.fnmatchcase(name, wanted if set("*?[") & set(wanted) else f"*{wanted}*")


def cells_of(recipe: Recipe, runs: int | None = None) -> tuple[Cell, ...]:
    """The cells of a recipe, with every setting checked. `runs` replaces the recipe's number of runs."""
    cells = [_cell(draft, recipe, runs) for draft in recipe.drafts]
    asked = {cell.question.phenomenon: cell.question for cell in reversed(cells)}
    others = tuple(asked[name] for name in dict.fromkeys(cell.question.phenomenon for cell in cells))
    cells = [cell if cell.others is None else dataclasses.replace(cell, others=others) for cell in cells]
    _check_defaults(recipe, cells)
    keys: dict[str, Cell] = {}
    for cell in cells:
        if (twin := keys.setdefault(cell.key, cell)) is not cell:
            raise PivotalError(
                f"{recipe.source}: '{twin.name}' and '{cell.name}' are the same cell. Remove one."
            )
    names = Counter(cell.name for cell in cells)
    if twice := sorted(name for name, count in names.items() if count > 1):
        raise PivotalError(f"{recipe.source}: two cells are named '{twice[0]}'. Give one a 'label'.")
    return tuple(cells)


def chosen(cells: Sequence[Cell], pattern: str | None) -> tuple[Cell, ...]:
    if pattern is None:
        return tuple(cells)
    found = tuple(cell for cell in cells if cell.matches(pattern))
    if not found:
        raise PivotalError(
            f"--only selects cells by a part of their name, but no name matches '{pattern}'."
            + did_you_mean(pattern, [cell.name for cell in cells])
        )
    return found


def _cell(draft: Draft, recipe: Recipe, runs: int | None) -> Cell:
    given = {**draft.defaults, **draft.settings}
    try:
        own = build(
            CellSettings, {k: v for k, v in given.items() if k in SETTINGS and k not in QUESTION}, "a cell"
        )
        own = dataclasses.replace(own, search=own.search or default_search(own.preset, given))
        asked = preset_values(own.search, own.preset) | {k: v for k, v in given.items() if k in QUESTION}
        question = build(Question, asked, "a cell")
    except PivotalError as error:
        raise draft.error(error.field, str(error)) from None
    seed, number = recipe.seed, (own.runs or recipe.runs) if runs is None else runs
    check_runs(number, seed)
    return Cell(
        label=draft.label,
        question=dataclasses.replace(question, seed=seed, split_seed=seed),
        search=_search(own, question.steps, draft),
        settings=own,
        seeds=range(seed, seed + number),
        at_once=own.at_once or recipe.at_once or number,
        others=() if own.cross else None,
    )


def _search(own: CellSettings, steps: Steps, draft: Draft) -> Search:
    try:
        cls = SEARCHES.get(own.search)
    except PivotalError as error:
        raise draft.error("search", str(error)) from None
    its = {option.name for option in options_of(cls)}
    options = {key: value for key, value in draft.defaults.items() if key in its.difference(SETTINGS)}
    options |= {key: value for key, value in draft.settings.items() if key not in SETTINGS}
    for key in options:
        if key not in its:
            raise draft.error(
                key,
                f"'{key}' is neither a setting of a cell nor an option of the search '{own.search}'."
                + did_you_mean(key, {*SETTINGS, *its, "label"}),
            )
    try:
        return settled(choose(own.search, own.preset, options), steps)
    except PivotalError as error:
        raise draft.error(error.field or "preset", str(error)) from None


def _check_defaults(recipe: Recipe, cells: Sequence[Cell]) -> None:
    """PivotalError if no cell takes one of the defaults."""
    draft = recipe.drafts[0]
    known = {*SETTINGS, *(option.name for cell in cells for option in options_of(type(cell.search)))}
    for key in draft.defaults:
        if key not in known:
            searches = ", ".join(sorted({cell.search.name for cell in cells}))
            raise PivotalError(
                f"{draft.place(key)}: '{key}' is not a setting of a cell or of {searches}.{did_you_mean(key, known)}"
            )


# -- checks before anything runs ---------------------------------------------------------------------------

READING = ("phenomenon", "labels", "columns", "skip_bad", "lower")
"""The settings of a question that decide its pairs."""


class PairsCache:
    """The pairs that the questions of a recipe read. Each file is read once."""

    def __init__(self) -> None:
        self._load = cache(Question.load_pairs)
        self._fingerprint = cache(lambda question: self._load(question).fingerprint())

    def __call__(self, question: Question) -> PairSet:
        return self._load(self._asked(question))

    def fingerprint(self, question: Question) -> str:
        return self._fingerprint(self._asked(question))

    @staticmethod
    def _asked(question: Question) -> Question:
        return _with_only(question, *READING, *("test",) * isinstance(question.test, str))


def check_cells(cells: Sequence[Cell], pairs: PairsCache) -> None:
    """PivotalError with everything that cannot be used; each mistake once, with the cells that share it.

    Only cheap checks are made: that models and phenomena exist, and how pairs are divided. What depends on the loaded
    model, such as its sites, is reported as a failure of its cells.
    """
    find = cache(_find_model)
    divide = cache(lambda question: question.divide(pairs(question)))
    slips: dict[str, list[str]] = {}
    for cell in cells:
        parts = _with_only(cell.question, *READING, "test", "split", "split_seed")
        for check in (partial(find, cell.question.model), partial(divide, parts), cell.search.check_there):
            try:
                check()
            except PivotalError as error:
                slips.setdefault(str(error), []).append(cell.name)
    if slips:
        many = "One setting" if len(slips) == 1 else f"{len(slips)} settings"
        listed = [
            f"- cell '{names[0]}'{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {slip}"
            for slip, names in slips.items()
        ]
        raise PivotalError(f"{many} of the recipe cannot be used; nothing was run.\n" + "\n".join(listed))


def _with_only(question: Question, *names: str) -> Question:
    """A question with some settings of another, to do once what depends on these alone."""
    return Question(**{name: getattr(question, name) for name in names})


def _find_model(spec: str) -> None:
    """PivotalError if there is no such model. Models that are listed, on disk or on the hub are not loaded."""
    listed = {name for name, _ in list_models()}
    if spec in listed or spec.partition(":")[0] in {*listed, "hf"} or Path(spec).exists():
        return
    load_model(spec, device="cpu")
