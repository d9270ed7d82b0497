"""A study from end to end: which rows exist, which are missing, the batches that produce them, and their rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from typing import Protocol, runtime_checkable

from pivotal.errors import PivotalError
from pivotal.jobs.study.batches import Batch, batches_of
from pivotal.jobs.study.cells import Cell, cells_of, chosen
from pivotal.jobs.study.checks import check_cells
from pivotal.jobs.study.estimate import Estimate, estimate
from pivotal.jobs.study.existing import (
    Existing,
    Readings,
    Run,
    existing_rows,
    in_order,
    of_other_pairs,
    what_changed,
    with_less_evidence,
)
from pivotal.jobs.study.folder import check_folder, default_folder, opened
from pivotal.jobs.study.local import Local
from pivotal.jobs.study.recipe import Recipe
from pivotal.jobs.study.standing import Standing, counted, told
from pivotal.jobs.study.work import StudyPlace
from pivotal.models import device_named
from pivotal.records.study_rows import FORMER, KNOWN, RESULTS, Sheet, StudyRow, read_results
from pivotal.stopping import saying, signals
from pivotal.watch import Silent, Watch


@runtime_checkable
class Executor(Protocol):
    """Runs batches and yields their rows as they finish; a batch that fails has rows too."""

    def width(self, device: str | None = None) -> int:
        """How many batches run at a time. Called once, before anything is written; PivotalError if there is no room
        for a batch, or no such device."""

    def run(
        self, batches: Sequence[Batch], place: StudyPlace, watch: Watch
    ) -> Iterator[tuple[Batch, list[StudyRow]]]: ...


@dataclass(frozen=True)
class StudyPlan:
    """What a study would do now."""

    folder: Path
    cells: tuple[Cell, ...]
    """The chosen cells."""
    all_cells: tuple[Cell, ...]
    """All cells of the recipe."""
    rows: tuple[StudyRow, ...]
    """The existing rows of all cells of the recipe, with its labels and in its order."""
    batches: tuple[Batch, ...]
    estimate: Estimate | None
    """None for a check, which takes seconds per cell."""
    note: str = ""
    """A message about the state of the results, if there is something to report."""
    former: tuple[StudyRow, ...] = ()
    """Rows of cells that are no longer in the recipe."""
    again: frozenset[Run] = frozenset()
    """The finished runs whose evidence is completed."""
    check: bool = False
    """Whether only to check what the models know."""

    def standings(self, rows: Iterable[StudyRow] | None = None) -> list[Standing]:
        """How far each cell is, by default now."""
        rows = list(self.settled.values() if rows is None else rows)
        return [_standing(cell, rows) for cell in self.cells]

    @property
    def seconds(self) -> float | None:
        return None if self.estimate is None else self.estimate.seconds

    @property
    def settled(self) -> dict[Run, StudyRow]:
        """The existing rows of runs that are not run again. Failed runs are, and so are runs that were only checked or
        whose evidence is completed."""
        return {
            row.run: row
            for row in self.rows
            if (row.settled or (self.check and row.status == KNOWN)) and row.run not in self.again
        }


@dataclass(frozen=True)
class Studied:
    """A study that ran to its end; some runs may have failed."""

    folder: Path
    rows: tuple[StudyRow, ...]
    """All rows of results.jsonl, including cells and seeds that were not run this time."""
    failed: tuple[StudyRow, ...] = ()
    """The runs that failed this time."""


def dry_run(
    recipe: Recipe,
    *,
    out: str | Path | None = None,
    only: str | None = None,
    runs: int | None = None,
    device: str | None = None,
    executor: Executor | None = None,
    check: bool = False,
) -> StudyPlan:
    """What `study` would do. Nothing is written, and no remote executor is contacted."""
    cells, picked, folder = _checked(recipe, out, only, runs, check)
    if executor is None:
        Local().width(device)
    check_folder(folder, recipe)
    return _plan(recipe, cells, picked, folder, device, 1, check)


def study(
    recipe: Recipe,
    *,
    out: str | Path | None = None,
    only: str | None = None,
    runs: int | None = None,
    device: str | None = None,
    executor: Executor | None = None,
    command: str = "",
    watch: Watch | None = None,
    check: bool = False,
) -> Studied:
    """Run the missing runs of a study; each row is on disk as soon as it is known.

    Without an executor it runs in this process, batch after batch. With `check`, it tests what the models know and
    searches nothing: the rows say known or unknown, and the same study without `check` searches what is known.
    """
    executor, watch = executor or Local(), watch or Silent()
    cells, picked, folder = _checked(recipe, out, only, runs, check)
    width = executor.width(device)
    with opened(folder, recipe, command):
        plan = _plan(recipe, cells, picked, folder, device, width, check)
        if plan.note:
            watch.say(plan.note)
        place = StudyPlace(recipe.name, folder.resolve(), device, recipe.resources.cpus, command, check)
        rows = _run(plan, executor, width, place, watch)
    if text := what_changed(rows):
        watch.say(text)
    tried = {(batch.cell.key, seed) for batch in plan.batches for seed in batch.seeds}
    return Studied(folder, tuple(rows), tuple(row for row in rows if row.run in tried and row.failed))


def _checked(
    recipe: Recipe, out: str | Path | None, only: str | None, runs: int | None, check: bool
) -> tuple[tuple[Cell, ...], tuple[Cell, ...], Path]:
    """All cells, the chosen cells and the folder."""
    cells = cells_of(recipe, runs)
    picked = chosen(cells, only)
    if check and (other := next((cell for cell in picked if not cell.known), None)):
        raise PivotalError(
            f"A check tests the cells that set 'known: true', but '{other.name}' does not. Set it in the 'defaults' of "
            f"{recipe.source}, or check one question with `pivotal check`."
        )
    check_cells(picked)
    return cells, picked, default_folder(recipe) if out is None else Path(out)


def _run(plan: StudyPlan, executor: Executor, width: int, place: StudyPlace, watch: Watch) -> list[StudyRow]:
    path = plan.folder / RESULTS
    rows = {row.run: row for row in plan.rows}
    tried = plan.settled
    sheet = Sheet(path, plan.rows, plan.former)
    left = list(plan.batches)
    try:
        with signals():  # a run that is under way saves itself
            for batch, new in executor.run(plan.batches, place, watch):
                found = [_better(row, rows.get(row.run)) for row in new]
                if found != new:
                    watch.say(f"{batch.cell.name}: The row stays as it is. {new[0].error}")
                sheet.append(found)
                rows |= {row.run: row for row in found}
                tried |= {row.run: row for row in found}
                left.remove(batch)
                again = estimate(_searched(left, plan.again), tried.values(), _kind(place.device), width)
                seconds_left = None if plan.check else again.seconds
                watch.say(told(_standing(batch.cell, tried.values()), seconds_left))
    except KeyboardInterrupt as stop:
        # From the file: the signal may have come after rows were written and before they were counted.
        raise saying(stop, _farewell(plan, read_results(path).rows, place.command)) from None
    finally:
        sheet.close()
    ordered = in_order(rows.values(), plan.all_cells)  # not in the order in which the runs finished
    Sheet(path, ordered).close()
    return ordered


def _better(new: StudyRow, former: StudyRow | None) -> StudyRow:
    """The new row of a run. A finished run keeps its row if the evidence for it could not be completed."""
    return former if former is not None and former.done and not new.done else new


def _searched(batches: Iterable[Batch], again: Collection[Run]) -> list[Batch]:
    """The batches that are searched. The others only lack evidence, which takes a small part of the time."""
    return [batch for batch in batches if (batch.cell.key, batch.seeds[0]) not in again]


def _plan(
    recipe: Recipe,
    cells: Sequence[Cell],
    picked: Sequence[Cell],
    folder: Path,
    device: str | None,
    width: int,
    check: bool,
) -> StudyPlan:
    there = existing_rows(recipe.name, cells, folder)
    readings = Readings()
    other = of_other_pairs(there.rows.values(), picked, readings)
    left_alone = {row.key for row in other}
    keys = set() if check else {cell.key for cell in picked} - left_alone
    used = {row.folder for row in there.rows.values() if row.done and row.key in keys}
    short = with_less_evidence((batch for batch in there.begun if batch.folder in used), folder, readings)
    again = {(batch.cell.key, seed) for batch in short for seed in batch.seeds}
    whole = there.whole | again | (there.known if check else frozenset())
    batches = [
        batch
        for cell in _by_model(picked)
        for batch in (
            *(batch for batch in short if batch.cell.key == cell.key),
            *batches_of(cell, folder, (s for s in cell.seeds if (cell.key, s) not in whole)),
        )
    ]
    ordered = in_order(there.rows.values(), cells)
    return StudyPlan(
        folder=folder,
        cells=tuple(picked),
        all_cells=tuple(cells),
        rows=tuple(ordered),
        batches=tuple(batches),
        estimate=None if check else estimate(_searched(batches, again), ordered, _kind(device), width),
        note=_note(there, folder, len(again), other),
        former=there.former,
        again=frozenset(again),
        check=check,
    )


def _by_model(cells: Sequence[Cell]) -> list[Cell]:
    """In the order of the recipe, but with the cells of one model together, so that it is loaded once."""
    first: dict[tuple[object, ...], int] = {}
    for i, cell in enumerate(cells):
        first.setdefault(_model(cell), i)
    return sorted(cells, key=lambda cell: first[_model(cell)])


def _model(cell: Cell) -> tuple[object, ...]:
    return cell.question.model, cell.question.dtype, cell.question.priming, cell.batch_nodes


def _standing(cell: Cell, rows: Iterable[StudyRow]) -> Standing:
    mine = [row for row in rows if row.key == cell.key and row.seed in cell.seeds]
    failed = [row for row in mine if row.failed]
    batches = {row.folder: row.total_seconds or 0.0 for row in mine}
    return Standing(
        cell,
        wanted=len(cell.seeds),
        done=len(mine) - len(failed),
        failed=len(failed),
        seconds=fsum(batches.values()),
        error=(failed[0].error or "") if failed else "",
    )


def _kind(device: str | None) -> str:
    return device_named(None).type if device is None else device.partition(":")[0]


def _note(there: Existing, folder: Path, again: int, other: Sequence[StudyRow]) -> str:
    said = [there.results.sentence(folder / RESULTS)] if there.results.lost else []
    if there.found:
        said.append(
            f"{counted(len(there.found))} had finished but had no row in {RESULTS}; taken from the run folders."
        )
    if other:
        names = dict.fromkeys(row.phenomenon for row in other)
        said.append(
            f"The pairs of {' and of '.join(names)} have changed. {counted(len(other))} used the earlier pairs; the "
            "rows stay. To ask the new pairs, use another folder."
        )
    if again:
        said.append(
            f"{counted(again)} {'has' if again == 1 else 'have'} less evidence than the recipe asks for. The evidence "
            "is added without a new search."
        )
    if there.former:
        said.append(
            f"{counted(len(there.former))} of cells that the recipe no longer has: see {folder / FORMER}."
        )
    return " ".join(said)


def _farewell(plan: StudyPlan, rows: Iterable[StudyRow], command: str) -> str:
    standings = plan.standings(rows)
    done, wanted = sum(s.done for s in standings), sum(s.wanted for s in standings)
    resume = f"Resume with: {command}" if command else "The same study with the same folder resumes."
    return (
        f"Stopped; {done} of {counted(wanted)} are in {plan.folder / RESULTS}. Unfinished runs resume from their last "
        f"checkpoint. {resume}"
    )
