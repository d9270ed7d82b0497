"""Checks that a recipe asks for something possible. They run before anything else, so that all errors are reported at
once.

Only cheap checks are made: that models and phenomena exist, how pairs are divided, and, for models that load within a
second, sites and numbers of units. The sites of a transformer are known only when it has been loaded; a wrong site is
reported as a failure of its cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from pathlib import Path

import torch

from pivotal.errors import PivotalError
from pivotal.jobs.study.cells import Cell
from pivotal.models import SOURCES, list_models, load_model
from pivotal.questions.pairs import PairSet
from pivotal.questions.question import Question
from pivotal.searches.base import budget_of
from pivotal.units import Site, UnitSpace, select_sites, sites_in_bases

READING = ("phenomenon", "labels", "columns", "skip_bad", "lower")
"""The settings of a question that decide its pairs."""


class PairsCache:
    """The pairs that the questions of a recipe read. Each file is read once."""

    def __init__(self) -> None:
        self._load = cache(Question.load_pairs)
        self._fingerprint = cache(lambda question: self._load(question).fingerprint())

    def __call__(self, question: Question) -> PairSet:
        return self._load(_with_only(question, *READING))

    def fingerprint(self, question: Question) -> str:
        return self._fingerprint(_with_only(question, *READING))


def check_cells(cells: Sequence[Cell], pairs: PairsCache) -> None:
    """PivotalError with everything in the cells that cannot be used."""
    models = dict.fromkeys(cell.question.model for cell in cells)
    questions = dict.fromkeys(_with_only(cell.question, *READING) for cell in cells)
    wrong = [
        *_missing("model", ((name, partial(_find_model, name)) for name in models)),
        *_missing("phenomenon", ((question.phenomenon, partial(pairs, question)) for question in questions)),
    ] or _impossible(cells, pairs)
    if wrong:
        many = "One setting" if len(wrong) == 1 else f"{len(wrong)} settings"
        raise PivotalError(f"{many} of the recipe cannot be used; nothing was run.\n" + "\n".join(wrong))


def _with_only(question: Question, *names: str) -> Question:
    """A question with some settings of another, to do once what depends on these alone."""
    return Question(**{name: getattr(question, name) for name in names})


def _missing(kind: str, looks: Iterable[tuple[str, Callable[[], object]]]) -> list[str]:
    found = []
    for name, look in looks:
        try:
            look()
        except PivotalError as error:
            found.append(f"- {kind} '{name}': {error}")
    return found


def _find_model(spec: str) -> None:
    """PivotalError if there is no such model. Models that are listed, on disk or on the hub are not loaded."""
    listed = {name for name, _ in list_models()}
    if spec in listed or spec.partition(":")[0] in {*listed, "hf"} or Path(spec).exists():
        return
    load_model(spec, device="cpu")


def _impossible(cells: Sequence[Cell], pairs: PairsCache) -> list[str]:
    """What is wrong with cells whose models and pairs exist; each mistake once, with the cells that share it."""

    @cache
    def divide(question: Question) -> None:
        question.divide(pairs(question))

    sites = cache(_light_sites)
    slips: dict[str, list[str]] = {}
    for cell in cells:
        parts = _with_only(cell.question, *READING, "test", "split", "split_seed")
        for check in (cell.search.check_there, partial(divide, parts), partial(_check_units, cell, sites)):
            try:
                check()
            except PivotalError as error:
                slips.setdefault(str(error), []).append(cell.name)
    return [
        f"- cell '{names[0]}'{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {slip}"
        for slip, names in slips.items()
    ]


def _check_units(cell: Cell, sites: Callable[[str, str | None], tuple[Site, ...] | None]) -> None:
    there = sites(cell.question.model, cell.question.priming)
    if there is None:
        return
    if sites_in_bases(there, cell.question.sites):  # how many units a basis has is known when it is made
        return
    units = len(UnitSpace(select_sites(there, cell.question.sites)))
    for name in ("max_units", "max_fractional"):
        if (number := cell.options.get(name)) is not None:
            budget_of(number, units, name)


def _light_sites(spec: str, priming: str | None) -> tuple[Site, ...] | None:
    """The sites of a model that opens quickly; None for other models."""
    for _, source in SOURCES.items():
        if source.light:
            model = source().open(spec, device=torch.device("cpu"), dtype=None, priming=priming)
            if model is not None:
                return model.sites
    return None
