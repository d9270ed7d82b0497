"""A small study of planted models: four cells, two seeds each, a few seconds. And a small atlas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pivotal.jobs.study.cells import Cell
from pivotal.jobs.study.recipe import Recipe, parse_recipe
from pivotal.jobs.study.watch import Standing
from pivotal.records.serial import replace
from pivotal.records.study_rows import StudyRow
from pivotal.searches.base import Progress

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


def lasting(rows: Iterable[StudyRow]) -> list[StudyRow]:
    """What must be the same whenever and wherever it is run: all but the time."""
    return [replace(row, search_seconds=None, total_seconds=None) for row in rows]


class Said:
    """A watch that remembers."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.cells: list[str] = []
        self.standings: list[tuple[int, int]] = []

    def say(self, text: str) -> None:
        self.lines.append(text)

    def stands(self, cells: Sequence[Standing], seconds_left: float | None) -> None:
        self.standings.append((sum(s.done for s in cells), sum(s.failed for s in cells)))

    def began(self, cell: Cell) -> None:
        self.cells.append(cell.name)

    def progress(self, cell: Cell, progress: Progress) -> None: ...
