"""The folder of a study: its recipe, its rows, and a run folder per batch. Only one process at a time uses it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from pivotal.errors import PivotalError
from pivotal.files import disk, remove_partials, slug, write_text
from pivotal.folders import check_no_other_files, locked
from pivotal.jobs.run_folder import INTERVENTIONS, RUN, SUMMARY, RunFolder, holds_run
from pivotal.jobs.study.cells import Cell
from pivotal.jobs.study.recipe import Recipe
from pivotal.records import serial
from pivotal.records.study import RECIPE, STUDY, StudyRecord

RUNS = "runs"


def default_folder(recipe: Recipe) -> Path:
    return Path("runs") / f"study-{slug(recipe.name) or 'unnamed'}"


def check_folder(path: Path, recipe: Recipe) -> None:
    """PivotalError if the folder holds another study, or anything else."""
    if not path.exists():
        return
    if (path / STUDY).is_file():
        stored = serial.read(path / STUDY, StudyRecord, cure="Name another folder with --out.")
        if stored.name != recipe.name:
            raise PivotalError(
                f"{path} holds the study '{stored.name}', not '{recipe.name}'. Name another folder with --out."
            )
    else:
        check_no_other_files(path, "study")


@contextmanager
def opened(path: Path, recipe: Recipe, command: str) -> Iterator[None]:
    """Hold the lock of the folder within the block, and store the current recipe there."""
    with locked(path, "study"):
        check_folder(path, recipe)
        with disk(path):
            remove_partials(path)
        if not (path / STUDY).is_file():
            started = datetime.now(timezone.utc).isoformat(timespec="seconds")
            serial.write(path / STUDY, StudyRecord(name=recipe.name, command=command, started=started))
        write_text(path / RECIPE, recipe.text)
        yield


# -- the run folders ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunBatch:
    """Consecutive seeds of a cell that are run together, in one run folder."""

    cell: Cell
    seeds: range
    folder: str
    """The run folder, from the folder of the study."""

    @property
    def runs(self) -> list[tuple[str, int]]:
        """The key of the cell with each seed."""
        return [(self.cell.key, seed) for seed in self.seeds]


def batches_of(cell: Cell, study: Path, missing: Iterable[int]) -> list[RunBatch]:
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
    while left:
        first = last = min(left)
        while last + 1 in left and last + 1 - first < cell.at_once:
            last += 1
        place, n = f"{home}/seeds-{first}-{last}", 1
        while (study / place / INTERVENTIONS).exists() and not holds_run(study / place):
            n += 1  # a light copy keeps its folder
            place = f"{home}/seeds-{first}-{last}-{n}"
        found.append(RunBatch(cell, range(first, last + 1), place))
        left.difference_update(found[-1].seeds)
    return sorted(found, key=lambda batch: batch.seeds.start)


def begun_folders(cell: Cell, study: Path) -> list[RunBatch]:
    """The batches of the cell that have a run folder, finished or not. Their run.json says which seeds they have."""
    home = home_of(cell, study)
    found = []
    for path in (study / home).glob(f"*/{RUN}"):
        if seeds := RunFolder(path.parent).info.seeds:
            found.append(RunBatch(cell, range(seeds[0], seeds[-1] + 1), f"{home}/{path.parent.name}"))
    return sorted(found, key=lambda batch: batch.seeds.start)


def home_of(cell: Cell, study: Path) -> str:
    """The folder of a cell. Its name may change with the labels, but it always ends in the cell's key."""
    homes = sorted((study / RUNS).glob(f"*-{cell.key}"))
    return f"{RUNS}/{homes[0].name if homes else cell.slug}"
