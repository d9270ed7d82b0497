"""Collects the results of one study from several folders: other machines, or other parts of the cells."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from pivotal.errors import PivotalError
from pivotal.files import disk, inside, is_partial, write_atomically
from pivotal.folders import LOCK, locked
from pivotal.jobs.run_folder import INTERVENTIONS, RUN
from pivotal.jobs.study.cells import Cell, cells_of
from pivotal.jobs.study.folder import default_folder, home_of, opened
from pivotal.jobs.study.recipe import Recipe
from pivotal.jobs.study.rows import check_nothing_is_lost, in_order, stored_rows, what_changed
from pivotal.records.serial import replace
from pivotal.records.study import RESULTS, STUDY, StudyRow, write_results


@dataclass(frozen=True)
class Merged:
    """What a merge did."""

    folder: Path
    rows: tuple[StudyRow, ...]
    """All rows of the merged study."""
    taken: int
    """Runs that came from the other folders."""
    finished: int
    """Runs of the recipe that need not be repeated."""
    runs: int
    """The runs of the whole recipe."""
    warning: str = ""
    """A message if the rows were not made with the same weights or pairs."""

    def told(self) -> str:
        """What it did, in words."""
        whole = f"{self.folder / RESULTS} has {self.finished} of the {self.runs} runs of the recipe."
        return f"Copied: {self.taken} new runs. {whole}"


def merge(
    recipe: Recipe,
    folders: Sequence[str | Path],
    *,
    out: str | Path | None = None,
    light: bool = False,
    command: str = "",
) -> Merged:
    """Copy the finished runs of several study folders into the folder of a study. Nothing is run or loaded.

    Runs are matched by the key of their cell and the seed. If several folders have a run, that of `out` is kept, else
    that of the first. Failed and unfinished runs are not taken. `light` copies the interventions of the runs and
    nothing else of their run folders.
    """
    cells = cells_of(recipe)
    by_key = {cell.key: cell for cell in cells}
    target = default_folder(recipe) if out is None else Path(out)
    sources = [_checked(Path(folder), target) for folder in folders]
    with opened(target, recipe, command):
        mine = stored_rows(recipe.name, cells, target)
        check_nothing_is_lost(mine, target)
        rows, whole = mine.rows, mine.whole(cells)
        taken = 0
        for source in sources:
            theirs = stored_rows(recipe.name, cells, source)
            new = theirs.whole(cells) - whole
            checked = {run: theirs.rows[run] for run in theirs.checked() - rows.keys()}
            used, places = {rows[run].folder for run in whole}, dict[str | None, str]()
            for run in sorted(new):
                row = theirs.rows[run]
                if row.folder is not None and row.folder not in places:  # several runs share a folder
                    places[row.folder] = _copied(row.folder, by_key[row.key], source, target, light, used)
                rows[run] = replace(row, folder=places.get(row.folder))
            rows |= checked
            whole |= new
            taken += len(new | checked.keys())
        write_results(target / RESULTS, in_order(rows.values(), cells))
        # From what was copied: a run may have got evidence after its row was read.
        ordered = in_order(stored_rows(recipe.name, cells, target).rows.values(), cells)
        write_results(target / RESULTS, ordered)
    wanted = {(cell.key, seed) for cell in cells for seed in cell.seeds}
    return Merged(target, tuple(ordered), taken, len(wanted & whole), len(wanted), what_changed(ordered))


def _checked(source: Path, target: Path) -> Path:
    if not (source / STUDY).is_file():
        raise PivotalError(f"A merge takes study folders, but {source} has no {STUDY}. Nothing was changed.")
    if source.resolve() == target.resolve():
        raise PivotalError(f"{source} is the folder that others are merged into. Leave it out of the list.")
    return source


def _copied(
    folder: str, cell: Cell, source: Path, target: Path, light: bool, used: Collection[str | None]
) -> str:
    """Copy a run folder, if it is still there. Return its new place, from the folder of the study. `used` are the
    places of other runs."""
    name = PurePosixPath(folder).name
    there = source / home_of(cell, source) / name
    if name == ".." or not there.is_dir():
        return folder
    home = home_of(cell, target)
    place, n = f"{home}/{name}", 1
    # A light copy of a run that is kept, or a run of these seeds that was begun here and may go on.
    while place in used or (target / place / RUN).is_file():
        n += 1
        place = f"{home}/{name}-{n}"
    # Somebody may be adding to the run. Who may not write there cannot hold its lock.
    with locked(there) if os.access(there, os.W_OK) else nullcontext():
        for file in _files(there, light):
            path = inside(target, place, *file.relative_to(there).parts)
            with disk(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(path, partial(shutil.copyfile, file))
    return place


def _files(folder: Path, light: bool) -> Iterator[Path]:
    """The files of a run folder. run.json is the last: with it a copy counts as a run, so a half copy does not."""
    for path in sorted((folder / INTERVENTIONS if light else folder).rglob("*")):
        linked = any(part.is_symlink() for part in (path, *path.parents) if part.is_relative_to(folder))
        ours = path not in (folder / RUN, folder / LOCK)
        if path.is_file() and not linked and not is_partial(path) and ours:
            yield path
    if not light and (folder / RUN).is_file():
        yield folder / RUN
