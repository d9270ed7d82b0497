"""Runs batches one after the other, in this process or in a Ray worker."""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from pivotal.errors import PivotalError
from pivotal.evidence.check import what_is_known
from pivotal.evidence.side_effects import to_be_asked
from pivotal.files import inside
from pivotal.folders import locked
from pivotal.jobs.changes import changed_files
from pivotal.jobs.find import find
from pivotal.jobs.preparation import fingerprints
from pivotal.jobs.run_folder import ABLATION, RUN, SUMMARY, RunFolder
from pivotal.jobs.study.cells import Cell, PairsCache
from pivotal.jobs.study.folder import RunBatch
from pivotal.jobs.study.rows import checked_rows, failed_rows, rows_of
from pivotal.models import LanguageModel, device_named
from pivotal.problem.prepare import as_read, model_of, problem_of
from pivotal.problem.problem import Problem
from pivotal.questions.pairs import PairSet
from pivotal.questions.question import Question
from pivotal.records.certificate import Ablations
from pivotal.records.run import Progress
from pivotal.records.study import StudyRow
from pivotal.searches.tools.ablation import found_by_ablation
from pivotal.watch import Named, Silent, Watch

_SMALLER = "Set 'at_once' (runs in one batch) or 'batch_nodes' of this cell, or a smaller dtype."


@dataclass(frozen=True)
class StudyPlace:
    """What a worker needs to know about the study."""

    study: str
    folder: Path
    device: str | None = None
    threads: int | None = None
    command: str = ""
    check: bool = False
    """Whether only to check what the models know."""
    started: float = field(default_factory=time.time)


class Local:
    """An executor that runs batches in this process."""

    def __init__(self, pairs: PairsCache | None = None) -> None:
        self._pairs = pairs

    def check(self, device: str | None = None) -> None:
        device_named(device)  # otherwise a device that does not exist would make every run fail

    def run(
        self, batches: Sequence[RunBatch], place: StudyPlace, watch: Watch
    ) -> Iterator[tuple[RunBatch, list[StudyRow]]]:
        worker = Worker(place, self._pairs)
        for batch in batches:
            watch.say(f"{batch.cell.name} …")
            yield batch, worker.rows(batch, Named(batch.cell.name, watch))


class Worker:
    """Runs the batches of one study. It keeps the pairs of all questions and the last model: batches are sorted by
    model, so that each model is loaded once."""

    def __init__(self, place: StudyPlace, pairs: PairsCache | None = None) -> None:
        self._place = place
        self.pairs = pairs or PairsCache()
        self._key: tuple[object, ...] | None = None
        self._model: LanguageModel | None = None
        self._others: dict[tuple[Question, int], PairSet | Problem] = {}
        """What was prepared for the model, by question and number of pairs."""

    def rows(self, batch: RunBatch, watch: Watch | None = None) -> list[StudyRow]:
        """The rows of a batch. If it fails, they state the error, so that the other batches still run."""
        place, before = self._place, torch.get_num_threads()
        try:
            torch.set_num_threads(place.threads or before)
            return self._run(batch, watch or Silent())
        except PivotalError as error:
            return failed_rows(batch, place.study, str(error))
        except Exception as error:  # a bug in one search must not stop the other runs
            place_of_error = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(place_of_error.filename).name}, line {place_of_error.lineno}"
            # One line, two sentences: torch then lists every process.
            reason = ". ".join(str(error).partition("\n")[0].split(". ")[:2]).rstrip(".")
            text = f"{type(error).__name__}: {reason} ({where})"
            if isinstance(error, MemoryError | torch.OutOfMemoryError):
                self.forget()
                text = f"Out of memory: {reason}. {_SMALLER}"
            return failed_rows(batch, place.study, text)
        finally:
            torch.set_num_threads(before)

    def _run(self, batch: RunBatch, watch: Watch) -> list[StudyRow]:
        cell, place = batch.cell, self._place
        question = replace(cell.question, seed=batch.seeds.start)
        path = inside(place.folder, batch.folder, RUN).parent
        model, pairs = self.model(cell), self.pairs(question)
        if cell.settings.known and not (path / SUMMARY).is_file():
            untouched = what_is_known(question, model, pairs)
            if place.check or untouched.lacking is not None:
                return checked_rows(batch, place.study, untouched)
        with locked(path):
            return self._search(batch, question, model, pairs, path, watch)

    def _search(
        self,
        batch: RunBatch,
        question: Question,
        model: LanguageModel,
        pairs: PairSet,
        path: Path,
        watch: Watch,
    ) -> list[StudyRow]:
        cell, place = batch.cell, self._place
        begun = RunFolder(path) if (path / RUN).is_file() else None
        now = fingerprints(question, model, pairs, cell.search)
        # A begun run starts again if a file that it reads has changed. A finished one is refused by `find`.
        stale = begun is not None and not begun.finished and bool(changed_files(begun.settings, now))
        finding = find(  # a finished run gets the evidence that it lacks
            question,
            cell.search,
            runs=len(batch.seeds),
            controls=cell.settings.controls,
            evidence=cell.settings.evidence,
            others=self.others(cell, model),
            out=str(path),
            overwrite=stale,
            model=model,
            pairs=pairs,
            command=place.command,
            watch=watch,
        )
        if cell.settings.ablation and not (path / ABLATION).is_file():
            watch.progress(Progress("ablating single units", 0, 1))
            _ablate(finding.folder, question, model, pairs)
        return rows_of(batch, place.study, finding.folder, finding.summary)

    def model(self, cell: Cell) -> LanguageModel:
        if self._model is None or cell.loads != self._key:
            self.forget()  # first, because two large models may not fit into memory
            self._model = model_of(cell.question, self._place.device, cell.settings.batch_nodes)
            self._key = cell.loads
        return self._model

    def others(self, cell: Cell, model: LanguageModel) -> list[PairSet | Problem] | None:
        """The pairs of the other questions, read by the model as those of this question; None if none are asked. They
        are prepared once for all cells of a model, except those that the model cannot score."""
        if cell.others is None:
            return None
        question, most = cell.question, cell.settings.cross_pairs
        found: list[PairSet | Problem] = []
        for other in cell.others:
            other = replace(other, lower=question.lower, unknown=question.unknown, steps=question.steps)
            if (other, most) not in self._others:
                pairs = as_read(other, model, self.pairs(other))
                try:
                    self._others[other, most] = to_be_asked(model, pairs, other.steps, most)
                except PivotalError:  # the model can score none of its pairs, which the evidence will say
                    self._others[other, most] = pairs
            found.append(self._others[other, most])
        return found

    def forget(self) -> None:
        """Release the model, and what it knows."""
        self._model = self._key = None
        self._others.clear()
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def _ablate(folder: RunFolder, question: Question, model: LanguageModel, pairs: PairSet) -> None:
    """Run single-unit ablation on training pairs, for all units that the runs found."""
    found = [folder.intervention(run) for run in range(folder.runs_saved())]
    train_pairs = question.divide(as_read(question, model, pairs))[0]
    train = problem_of(question, model.in_bases(folder.bases()), train_pairs)
    units = sorted({unit for intervention in found for unit in intervention.units})
    rows = found_by_ablation(units, train)
    folder.write_json(ABLATION, Ablations(units={row.unit: row for row in rows}))
