"""Which runs are still to be had: seeds of one cell that go through the model together, each lot in a run folder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pivotal.jobs.run_folder import RUN, SUMMARY
from pivotal.jobs.study.cells import Cell

RUNS = "runs"


@dataclass(frozen=True)
class Batch:
    """Some seeds of a cell, one after the other without a gap."""

    cell: Cell
    seeds: range
    folder: str
    """The run folder, from the folder of the study."""


def batches_of(cell: Cell, study: Path, missing: Iterable[int]) -> list[Batch]:
    """The missing seeds in batches. One that was begun is gone on with: it keeps its seeds, or its checkpoint would be
    of no use. Not if it is larger than batches may be now: that may be what it failed of."""
    left = set(missing)
    found = []
    for begun in begun_folders(cell, study):
        # If it was searched to the end, what is missing is small: single-unit ablation.
        searched = (study / begun.folder / SUMMARY).is_file()
        if left.issuperset(begun.seeds) and (searched or len(begun.seeds) <= cell.at_once):
            left.difference_update(begun.seeds)
            found.append(begun)
    home = _home(cell, study)
    for stretch in _stretches(sorted(left)):
        for first in range(stretch.start, stretch.stop, cell.at_once):
            seeds = range(first, min(first + cell.at_once, stretch.stop))
            found.append(Batch(cell, seeds, f"{home}/{_folder_name(seeds)}"))
    return sorted(found, key=lambda batch: batch.seeds.start)


def begun_folders(cell: Cell, study: Path) -> list[Batch]:
    """What there is of the cell on the disk, finished or not."""
    home = _home(cell, study)
    folders = (study / home).glob(f"seeds-*/{RUN}")
    found = [(seeds, run.parent.name) for run in folders if (seeds := _seeds(run.parent.name))]
    return [Batch(cell, seeds, f"{home}/{name}") for seeds, name in sorted(found, key=lambda f: f[0].start)]


def _home(cell: Cell, study: Path) -> str:
    """The folder of a cell: what it is called may change with its labels, what it ends with does not."""
    there = sorted((study / RUNS).glob(f"*-{cell.key}"))
    return f"{RUNS}/{there[0].name if there else cell.slug}"


def _folder_name(seeds: range) -> str:
    return f"seeds-{seeds[0]}-{seeds[-1]}"


def _seeds(name: str) -> range | None:
    match = re.fullmatch(r"seeds-(\d+)-(\d+)", name, re.ASCII)
    return range(int(match[1]), int(match[2]) + 1) if match else None


def _stretches(seeds: list[int]) -> Iterator[range]:
    start = 0
    for i in range(1, len(seeds) + 1):
        if i == len(seeds) or seeds[i] != seeds[i - 1] + 1:
            yield range(seeds[start], seeds[i - 1] + 1)
            start = i
