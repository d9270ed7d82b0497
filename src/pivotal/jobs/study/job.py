"""A study from end to end: which rows exist, which are missing, the batches that produce them, and their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from pivotal.errors import PivotalError
from pivotal.evidence.side_effects import unanswered
from pivotal.evidence.summarise import has_level
from pivotal.jobs.study.cells import Cell, PairsCache, cells_of, check_cells, chosen
from pivotal.jobs.study.folder import RunBatch, batches_of, check_folder, default_folder, opened
from pivotal.jobs.study.recipe import Recipe, read_recipe
from pivotal.jobs.study.rows import Run, check_nothing_is_lost, in_order, stored_rows, what_changed
from pivotal.jobs.study.work import Local, StudyPlace
from pivotal.printing import counted, duration
from pivotal.records.frame import to_frame
from pivotal.records.study import KNOWN, RESULTS, UNKNOWN, Status, StudyRow, flat, read_results, write_results
from pivotal.records.summary import Summary
from pivotal.stopping import saying, signals
from pivotal.watch import Silent, Watch


@runtime_checkable
class Executor(Protocol):
    """Runs batches and yields their rows as they finish; a batch that fails has rows too."""

    def check(self, device: str | None = None) -> None:
        """PivotalError if there is no room for a batch, or no such device. Called once, before anything is written."""

    def run(
        self, batches: Sequence[RunBatch], place: StudyPlace, watch: Watch
    ) -> Iterator[tuple[RunBatch, list[StudyRow]]]: ...


@dataclass(frozen=True)
class StudyPlan:
    """What a study would do now."""

    folder: Path
    cells: tuple[Cell, ...]
    """The chosen cells."""
    all_cells: tuple[Cell, ...]
    """All cells of the recipe."""
    rows: Mapping[Run, StudyRow]
    """The existing rows of all cells of the recipe, with its labels."""
    settled: Mapping[Run, StudyRow]
    """Those of runs that need nothing more, and of cells that were not chosen."""
    batches: tuple[RunBatch, ...]
    note: str = ""
    """A message about the state of the results, if there is something to report."""

    def done(self, cell: Cell) -> int:
        return sum((cell.key, seed) in self.settled for seed in cell.seeds)

    def left(self, cell: Cell) -> list[int]:
        """The seeds that would run."""
        return [seed for batch in self.batches if batch.cell.key == cell.key for seed in batch.seeds]

    @property
    def seconds(self) -> float | None:
        """The time that the batches may take one after the other; None if there is nothing to estimate it from."""
        return seconds_of(self.batches, self.rows.values())

    def total(self) -> str:
        """What is done and what is left, in words."""
        runs, batches = sum(len(batch.seeds) for batch in self.batches), len(self.batches)
        done = sum(map(self.done, self.cells))
        if not batches:
            return f"Everything is done ({counted(done, 'run')}): see {self.folder / RESULTS}."
        left = f"Done: {counted(done, 'run')}. Left: {counted(runs, 'run')} in {batches} batch{'es' * (batches > 1)}"
        if self.seconds is not None:
            left += f", about {duration(self.seconds)} one after the other, by the finished runs"
        return f"{left}. Nothing was run."


@dataclass(frozen=True)
class Studied:
    """A study that ran to its end; some runs may have failed."""

    folder: Path
    rows: tuple[StudyRow, ...]
    """All rows of results.jsonl, including cells and seeds that were not run this time."""
    failed: tuple[StudyRow, ...] = ()
    """The runs that failed this time."""

    def to_frame(self) -> Any:
        """A data frame with a row for each run."""
        return to_frame(flat(self.rows))

    def __repr__(self) -> str:
        """How it ended, in words."""
        done = f"Done: {counted(sum(row.done for row in self.rows), 'run')}, in {self.folder / RESULTS}."
        if unknown := self._cells(UNKNOWN):
            done += f" Not searched: {unknown} whose model does not know the phenomenon."
        if known := self._cells(KNOWN):
            done += f" To be searched: {known} whose model knows it."
        if not self.failed:
            return done
        first = f"{self.failed[0].name}: {self.failed[0].error}"
        return f"{done} Failed: {counted(len(self.failed), 'run')}; the same command tries again. The first is {first}"

    def _cells(self, status: Status) -> str:
        """The number of cells with that status in words; empty if there are none."""
        cells = len({row.name for row in self.rows if row.status == status})
        return counted(cells, "cell") if cells else ""


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
    pairs = PairsCache()
    cells, picked, folder = _checked(recipe, out, only, runs, check, pairs)
    if executor is None:
        Local().check(device)
    check_folder(folder, recipe)
    return _plan(recipe, cells, picked, folder, check, pairs)


def study(
    recipe: Recipe | str | Path,
    *,
    out: str | Path | None = None,
    only: str | None = None,
    runs: int | None = None,
    device: str | None = None,
    executor: Executor | None = None,
    command: str = "",
    watch: Watch | None = None,
    check: bool = False,
    report: Callable[[Path], object] | None = None,
) -> Studied:
    """Run the missing runs of a study; each row is on disk as soon as it is known.

    `recipe` is a recipe, its file, or the name of one that comes with the package. Without an executor it runs in this
    process, batch after batch. With `check`, it tests what the models know and searches nothing: the rows say known or
    unknown, and the same study without `check` searches what is known. `report` writes what is made from the rows,
    while no other process can change the folder.
    """
    recipe = recipe if isinstance(recipe, Recipe) else read_recipe(recipe)
    pairs, watch = PairsCache(), watch or Silent()
    executor = executor or Local(pairs)
    cells, picked, folder = _checked(recipe, out, only, runs, check, pairs)
    executor.check(device)
    with opened(folder, recipe, command):
        plan = _plan(recipe, cells, picked, folder, check, pairs)
        if plan.note:
            watch.say(plan.note)
        place = StudyPlace(recipe.name, folder.resolve(), device, recipe.resources.cpus, command, check)
        rows = _run(plan, executor, place, watch)
        if report is not None:
            report(folder)
    if (text := what_changed(rows, picked, pairs)) and text not in plan.note:
        watch.say(text)
    tried = {run for batch in plan.batches for run in batch.runs}
    return Studied(folder, tuple(rows), tuple(row for row in rows if row.run in tried and row.failed))


def _checked(
    recipe: Recipe, out: str | Path | None, only: str | None, runs: int | None, check: bool, pairs: PairsCache
) -> tuple[tuple[Cell, ...], tuple[Cell, ...], Path]:
    """All cells, the chosen cells and the folder."""
    cells = cells_of(recipe, runs)
    picked = chosen(cells, only)
    if check and (other := next((cell for cell in picked if not cell.settings.known), None)):
        raise PivotalError(f"A check needs 'known: true' in 'defaults', but '{other.name}' lacks it.")
    check_cells(picked, pairs)
    return cells, picked, default_folder(recipe) if out is None else Path(out)


def _run(plan: StudyPlan, executor: Executor, place: StudyPlace, watch: Watch) -> list[StudyRow]:
    path, rows, settled = plan.folder / RESULTS, dict(plan.rows), dict(plan.settled)
    left = list(plan.batches)

    def save() -> list[StudyRow]:
        ordered = in_order(rows.values(), plan.all_cells)  # not in the order in which the runs finished
        write_results(path, ordered)
        return ordered

    ordered = save()
    try:
        with signals():  # a run that is under way saves itself
            for batch, new in executor.run(plan.batches, place, watch):
                # A finished run keeps its row if the evidence for it could not be completed.
                better = {
                    row.run: row for row in new if row.done or not (row.run in rows and rows[row.run].done)
                }
                if len(better) < len(new):
                    watch.say(f"{batch.cell.name}: The row stays as it is. {new[0].error}")
                rows |= better
                settled |= {run: rows[run] for run in batch.runs}
                ordered = save()
                left.remove(batch)
                seconds = None if place.check else seconds_of(left, rows.values())
                watch.say(_told(batch.cell, settled, seconds))
    except KeyboardInterrupt as stop:
        # From the file: the signal may have come before the last rows were written.
        stored = {row.run for row in read_results(path) if not row.failed}
        raise saying(stop, _farewell(plan, stored & settled.keys(), place.command)) from None
    return ordered


def _plan(
    recipe: Recipe,
    cells: Sequence[Cell],
    picked: Sequence[Cell],
    folder: Path,
    check: bool,
    pairs: PairsCache,
) -> StudyPlan:
    stored = stored_rows(recipe.name, cells, folder)
    check_nothing_is_lost(stored, folder)
    keys = set() if check else {cell.key for cell in picked}
    short = [
        batch
        for batch, summary in stored.summaries
        if batch.cell.key in keys and _lacks_evidence(batch.cell, summary, pairs)
    ]
    again = {run for batch in short for run in batch.runs}
    whole = stored.whole(cells) | again | (stored.checked() if check else set())
    batches = [
        batch
        for cell in _by_model(picked)
        for batch in (
            *(batch for batch in short if batch.cell.key == cell.key),
            *batches_of(cell, folder, (s for s in cell.seeds if (cell.key, s) not in whole)),
        )
    ]
    left = {run for batch in batches for run in batch.runs}
    return StudyPlan(
        folder=folder,
        cells=tuple(picked),
        all_cells=tuple(cells),
        rows=stored.rows,
        settled={run: row for run, row in stored.rows.items() if run not in left},
        batches=tuple(batches),
        note=_note(len(again), what_changed(stored.rows.values(), picked, pairs)),
    )


def _lacks_evidence(cell: Cell, summary: Summary, pairs: PairsCache) -> bool:
    """Whether the cell asks for more evidence now than the run has: more random sets, a higher level, or further
    phenomena."""
    evidence, wanted = summary.evidence, cell.settings
    if (
        summary.controls.sets < wanted.controls
        or evidence is None
        or not has_level(evidence, wanted.evidence)
    ):
        return True
    names = []
    for question in cell.others or ():
        with suppress(PivotalError):  # it cannot be read now
            names.append(pairs(question).name)
    return wanted.evidence != "none" and bool(unanswered(evidence, summary.phenomenon, names))


def _by_model(cells: Sequence[Cell]) -> list[Cell]:
    """In the order of the recipe, but with the cells of one model together, so that it is loaded once."""
    models = [cell.loads for cell in cells]
    return sorted(cells, key=lambda cell: models.index(cell.loads))


# -- messages ----------------------------------------------------------------------------------------------


def seconds_of(batches: Iterable[RunBatch], rows: Iterable[StudyRow]) -> float | None:
    """The time of the batches, one after the other, if their runs take as long as the finished ones in the mean."""
    timed = [row.total_seconds / max(1, len(row.batch)) for row in rows if row.done and row.total_seconds]
    runs = sum(len(batch.seeds) for batch in batches)
    return runs * sum(timed) / len(timed) if timed else None


def _told(cell: Cell, rows: Mapping[Run, StudyRow], seconds_left: float | None) -> str:
    """A line about a cell, after a batch of it."""
    mine = [rows[cell.key, seed] for seed in cell.seeds if (cell.key, seed) in rows]
    failed = [row for row in mine if row.failed]
    spent = sum({row.folder: row.total_seconds or 0.0 for row in mine}.values())
    left = f" (the rest takes about {duration(seconds_left)})" if seconds_left else ""
    error = f", {len(failed)} failed: {failed[0].error}" if failed else ""
    return (
        f"{cell.name}: {len(mine) - len(failed)} of {len(cell.seeds)} done in {duration(spent)}{error}{left}"
    )


def _note(again: int, changed: str) -> str:
    lacks = f"Evidence is added to {counted(again, 'run')}, without a new search: the recipe asks for more."
    return " ".join(filter(None, (changed, lacks if again else "")))


def _farewell(plan: StudyPlan, done: set[Run], command: str) -> str:
    wanted = {(cell.key, seed) for cell in plan.cells for seed in cell.seeds}
    return (
        f"Stopped; {len(done & wanted)} of {counted(len(wanted), 'run')} are in {plan.folder / RESULTS}. Unfinished "
        f"runs resume from their last checkpoint. Resume with: {command or 'the same study'}"
    )
