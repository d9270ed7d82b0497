"""Batches: the missing seeds of a cell in groups that are run together, each group in a run folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pivotal.jobs.run_folder import RUN, SUMMARY, RunFolder
from pivotal.jobs.study.cells import Cell

RUNS = "runs"


@dataclass(frozen=True)
class Batch:
    """Consecutive seeds of a cell."""

    cell: Cell
    seeds: range
    folder: str
    """The run folder, from the folder of the study."""


def batches_of(cell: Cell, study: Path, missing: Iterable[int]) -> list[Batch]:
    """The missing seeds in batches. A batch that was begun keeps its seeds, so that its checkpoint can be used, unless
    it is larger than `at_once` allows now: its size may be why it failed."""
    left = set(missing)
    found = []
    for begun in begun_folders(cell, study):
        # If its search has finished, only single-unit ablation is missing, which is a small job.
        searched = (study / begun.folder / SUMMARY).is_file()
        if left.issuperset(begun.seeds) and (searched or len(begun.seeds) <= cell.at_once):
            left.difference_update(begun.seeds)
            found.append(begun)
    home = home_of(cell, study)
    for stretch in _stretches(sorted(left)):
        for first in range(stretch.start, stretch.stop, cell.at_once):
            seeds = range(first, min(first + cell.at_once, stretch.stop))
            found.append(Batch(cell, seeds, f"{home}/seeds-{seeds[0]}-{seeds[-1]}"))
    return sorted(found, key=lambda batch: batch.seeds.start)


def begun_folders(cell: Cell, study: Path) -> list[Batch]:
    """The batches of the cell that have a run folder, finished or not. Their run.json says which seeds they have."""
    home = home_of(cell, study)
    found = []
    for path in (study / home).glob(f"*/{RUN}"):
        seeds = RunFolder.open(path.parent).info.seeds
        if seeds:
            found.append(Batch(cell, range(seeds[0], seeds[-1] + 1), f"{home}/{path.parent.name}"))
    return sorted(found, key=lambda batch: batch.seeds.start)


def home_of(cell: Cell, study: Path) -> str:
    """The folder of a cell. Its name may change with the labels, but it always ends in the cell's key."""
    there = sorted((study / RUNS).glob(f"*-{cell.key}"))
    return f"{RUNS}/{there[0].name if there else cell.slug}"


def _stretches(seeds: list[int]) -> Iterator[range]:
    start = 0
    for i in range(1, len(seeds) + 1):
        if i == len(seeds) or seeds[i] != seeds[i - 1] + 1:
            yield range(seeds[start], seeds[i - 1] + 1)
            start = i
