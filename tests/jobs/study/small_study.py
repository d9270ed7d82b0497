"""A small study of planted models: four cells, two seeds each, a few seconds. And a small atlas."""

from collections.abc import Iterable
from pathlib import Path

from pivotal.jobs.study.recipe import Recipe, parse_recipe
from pivotal.records.serial import replace
from pivotal.records.study import StudyRow, read_results
from pivotal.searches import Progress

TINY = """\
name: tiny
runs: 2
seed: 3
resources: {cpus: 1}
defaults: {phenomenon: planted, test: 81, updates: 12, refit: 2, max_units: 3}
grid:
  model: [planted, "planted:1"]
  steps: [every, single]
"""

ATLAS = """\
name: cross
resources: {{cpus: 1}}
defaults: {{model: planted, steps: every, search: attribution, max_units: 2, controls: 3, known: true, cross: true}}
grid:
  question:
    - {{label: planted, phenomenon: planted}}
    - {{label: renamed, phenomenon: {folder}/renamed.jsonl}}
    - {{label: chance, phenomenon: {folder}/chance.jsonl}}
    - {{label: strange, phenomenon: continent}}
"""
"""A small atlas. The model knows the first two phenomena."""


def tiny(*changes: tuple[str, str]) -> Recipe:
    text = TINY
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse_recipe(text, "tiny.yaml")


def rows_in(folder: Path) -> tuple[StudyRow, ...]:
    """The results of a study so far."""
    return read_results(folder / "results.jsonl")


def lasting(rows: Iterable[StudyRow]) -> list[StudyRow]:
    """What must be the same whenever and wherever it is run: all but the time."""
    return [replace(row, search_seconds=None, total_seconds=None) for row in rows]


class Said:
    """A watch that remembers the cells that began, how far they were after each batch, and all other lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.cells: list[str] = []
        self.standings: list[str] = []

    def say(self, text: str) -> None:
        if text.endswith(" …"):
            self.cells.append(text.removesuffix(" …"))
        elif " done in " in text:
            self.standings.append(text)
        else:
            self.lines.append(text)

    def progress(self, progress: Progress) -> None: ...
