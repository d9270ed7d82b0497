"""The rows that a folder has for the cells of a recipe: those of its results, and those of finished run folders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pivotal.errors import PivotalError
from pivotal.evidence.collect import has_level, unanswered
from pivotal.jobs.run_folder import RunFolder
from pivotal.jobs.study.batches import Batch, begun_folders
from pivotal.jobs.study.cells import Cell
from pivotal.jobs.study.checks import READING, with_only
from pivotal.jobs.study.harvest import recovered
from pivotal.questions.question import Question
from pivotal.records.serial import replace
from pivotal.records.study_rows import FORMER, KNOWN, RESULTS, UNKNOWN, Results, StudyRow, read_results
from pivotal.records.summary import Summary

Run = tuple[str, int]
"""The key of a cell, and a seed."""


@dataclass(frozen=True)
class Existing:
    """What a folder has."""

    rows: dict[Run, StudyRow]
    """The rows of the cells of the recipe, with its name and labels; failed runs included."""
    whole: frozenset[Run]
    """The runs that need not be repeated."""
    known: frozenset[Run]
    """The runs that are still to be searched, of which it is settled that the model knows the phenomenon."""
    results: Results
    """The file of results, as it is."""
    found: tuple[StudyRow, ...]
    """Rows that only a run folder had."""
    former: tuple[StudyRow, ...]
    """Rows of cells that the recipe does not have."""
    begun: tuple[Batch, ...]
    """The batches that have a run folder, finished or not."""


def existing_rows(name: str, cells: Sequence[Cell], folder: Path) -> Existing:
    """The rows in a folder for these cells; `name` is that of the recipe."""
    by_key = {cell.key: cell for cell in cells}
    results = read_results(folder / RESULTS)
    rows = {
        row.run: replace(row, study=name, cell=dict(by_key[row.key].label))
        for row in (*read_results(folder / FORMER).rows, *results.rows)
        if row.key in by_key
    }
    have = {row.run for row in rows.values() if _is_whole(row, by_key[row.key])}
    begun = [batch for cell in cells for batch in begun_folders(cell, folder)]
    found = recovered(begun, have, name, folder)
    whole = frozenset(have | {row.run for row in found})
    return Existing(
        rows=rows | {row.run: row for row in found},
        whole=whole,
        known=frozenset(run for run, row in rows.items() if row.status == KNOWN) - whole,
        results=results,
        found=tuple(found),
        former=tuple(row for row in results.rows if row.key not in by_key),
        begun=tuple(begun),
    )


class Readings:
    """The pairs that the questions of a recipe read now. Each file is read once."""

    def __init__(self) -> None:
        self._pairs = cache(Question.load_pairs)
        self._fingerprint = cache(lambda question: self._pairs(question).fingerprint())

    def names(self, questions: Iterable[Question]) -> list[str]:
        """The names of questions, without those that cannot be read now."""
        found = []
        for question in questions:
            with suppress(PivotalError):
                found.append(self._pairs(with_only(question, *READING)).name)
        return found

    def fingerprint(self, question: Question) -> str:
        return self._fingerprint(with_only(question, *READING))


def of_other_pairs(rows: Iterable[StudyRow], cells: Iterable[Cell], readings: Readings) -> list[StudyRow]:
    """The rows of finished runs whose pairs were not those that their cells read now: a file was edited."""
    by_key = {cell.key: cell for cell in cells}
    return [
        row
        for row in rows
        if row.done and row.key in by_key and row.data_fingerprint is not None
        if row.data_fingerprint != readings.fingerprint(by_key[row.key].question)
    ]


def with_less_evidence(batches: Iterable[Batch], folder: Path, readings: Readings) -> list[Batch]:
    """The finished batches that have less evidence than their cells ask for now. The recipe may have been changed: more
    random sets, a higher level, or further phenomena."""

    def lacks(cell: Cell, summary: Summary) -> bool:
        evidence = summary.evidence
        if (
            summary.controls.sets < cell.controls
            or evidence is None
            or not has_level(evidence, cell.evidence)
        ):
            return True
        if cell.evidence == "none":
            return False
        return bool(unanswered(evidence, summary.phenomenon, readings.names(cell.others or ())))

    found = []
    for batch in batches:
        there = RunFolder.open(folder / batch.folder)
        with suppress(PivotalError):  # a damaged summary: the row has what the tables need
            if there.finished and lacks(batch.cell, there.summary()):
                found.append(batch)
    return found


def in_order(rows: Iterable[StudyRow], cells: Sequence[Cell]) -> list[StudyRow]:
    """The rows in the order of the recipe, so that two files of results can be compared."""
    order = {cell.key: i for i, cell in enumerate(cells)}
    return sorted(rows, key=lambda row: (order[row.key], row.seed))


def _is_whole(row: StudyRow, cell: Cell) -> bool:
    if row.status == UNKNOWN:
        return cell.known
    return row.done and not (cell.ablation and any(unit.by_ablation is None for unit in row.found))


def what_changed(rows: Iterable[StudyRow]) -> str:
    """The warning if the weights or the pairs were not the same for all runs; else empty."""
    prints: dict[tuple[str | None, ...], set[str | None]] = {}
    for row in filter(lambda row: row.done, rows):
        # The fingerprint of a model depends on its weights, its dtype and its priming.
        model = (f"weights of {row.model}", row.dtype, row.priming)
        prints.setdefault(model, set()).add(row.model_fingerprint)
        prints.setdefault((f"pairs of {row.phenomenon}",), set()).add(row.data_fingerprint)
    changed = dict.fromkeys(str(what[0]) for what, different in prints.items() if len(different) > 1)
    if not changed:
        return ""
    return (
        f"The {' and the '.join(changed)} have changed between runs of this study, so its rows cannot be compared. "
        "Start a new study in another folder."
    )
