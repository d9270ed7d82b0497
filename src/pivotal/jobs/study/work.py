"""Runs one batch, in this process or in a Ray worker."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from pivotal.errors import PivotalError
from pivotal.evidence.check import Untouched, what_is_known
from pivotal.evidence.checks.effects import prepared
from pivotal.files import inside, locked
from pivotal.jobs.find import find
from pivotal.jobs.preparation import fingerprints
from pivotal.jobs.run_folder import ABLATION, RUN, SUMMARY, RunFolder, changed_files
from pivotal.jobs.study.batches import Batch
from pivotal.jobs.study.harvest import checked_rows, failed_rows, rows_of
from pivotal.models import LanguageModel
from pivotal.problem.examples import Examples
from pivotal.problem.prepare import as_read, model_of, problem_of
from pivotal.questions.pairs import PairSet
from pivotal.questions.question import Question
from pivotal.records.certificate import Ablations
from pivotal.records.study_rows import StudyRow
from pivotal.searches.ablation import found_by_ablation
from pivotal.searches.base import Progress, Search
from pivotal.watch import Silent, Watch


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


def carry_out(batch: Batch, place: StudyPlace, watch: Watch | None = None) -> list[StudyRow]:
    """The rows of a batch. If it fails, they state the error, so that the other batches still run."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(place.threads or before)
        question = replace(batch.cell.question, seed=batch.seeds.start)
        model = MODELS.take(question, place.device, batch.cell.batch_nodes)
        if batch.cell.known and not (place.folder / batch.folder / SUMMARY).is_file():
            untouched = what_is_known(question, model, MODELS.untouched)
            if place.check or untouched.lacking is not None:
                return checked_rows(batch, place.study, untouched)
        path = inside(place.folder, batch.folder, RUN).parent
        with locked(path):
            _run(batch, path, question, model, place, watch or Silent())
        return rows_of(batch, place.study, place.folder)
    except PivotalError as error:
        return failed_rows(batch, place.study, str(error))
    except (MemoryError, torch.OutOfMemoryError) as error:
        MODELS.clear()
        cure = "Set 'at_once' (runs in one batch) or 'batch_nodes' of this cell, or a smaller dtype."
        # Two sentences are enough: torch then lists every process.
        reason = ". ".join(_first_line(error).split(". ")[:2]).rstrip(".")
        return failed_rows(batch, place.study, f"Out of memory: {reason}. {cure}")
    except Exception as error:  # a bug in one search must not stop the other runs
        return failed_rows(
            batch, place.study, f"{type(error).__name__}: {_first_line(error)} ({_where(error)})"
        )
    finally:
        torch.set_num_threads(before)


class ModelCache:
    """Keeps the last model in memory. Batches are sorted by model, so that each model is loaded once."""

    def __init__(self) -> None:
        self._key: tuple[object, ...] | None = None
        self._model: LanguageModel | None = None
        self._others: dict[Question, PairSet | Examples] = {}
        self.loads = 0
        self.untouched: dict[tuple[object, ...], Untouched] = {}
        """What the model knows, by question and pairs."""

    def take(self, question: Question, device: str | None, batch_nodes: int | None) -> LanguageModel:
        key = (question.model, question.dtype, question.priming, device, batch_nodes)
        if self._model is None or key != self._key:
            self.clear()  # first, because two large models may not fit into memory
            self._model, self._key = model_of(question, device, batch_nodes), key
            self.loads += 1
        return self._model

    def others(
        self, question: Question, model: LanguageModel, asked: Sequence[Question]
    ) -> list[PairSet | Examples]:
        """The pairs of other questions, read by the model as those of this question. They are prepared once for all
        cells of a model, except those of which no pair can be asked."""
        found: list[PairSet | Examples] = []
        for other in asked:
            other = replace(other, lower=question.lower, unknown=question.unknown, steps=question.steps)
            if other not in self._others:
                pairs = as_read(other, model, other.load_pairs())
                try:
                    self._others[other] = prepared(model, pairs, other.steps)
                except PivotalError:  # no pair of it can be asked, which the evidence will say
                    self._others[other] = pairs
            found.append(self._others[other])
        return found

    def clear(self) -> None:
        self._model = self._key = None
        self._others = {}
        self.untouched.clear()
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


MODELS = ModelCache()
"""The cache of this process."""


def _run(
    batch: Batch, path: Path, question: Question, model: LanguageModel, place: StudyPlace, watch: Watch
) -> None:
    cell = batch.cell
    begun = RunFolder.open(path) if (path / RUN).is_file() else None
    stale = begun is not None and _is_stale(begun, question, model, cell.search)
    if stale and begun is not None and begun.finished:
        raise PivotalError(
            f"The weights or the files of the run in {path} have changed, so nothing can be added to it. Use another "
            "folder."
        )
    find(  # a finished run gets the evidence that it lacks
        question,
        cell.search,
        runs=len(batch.seeds),
        controls=cell.controls,
        evidence=cell.evidence,
        others=None if cell.others is None else MODELS.others(question, model, cell.others),
        out=str(path),
        overwrite=stale,
        model=model,
        command=place.command,
        watch=watch,
    )
    folder = RunFolder.open(path)
    if cell.ablation and not (path / ABLATION).is_file():
        watch.progress(Progress("ablating single units", 0, 1))
        _ablate(folder, question, model)


def _is_stale(begun: RunFolder, question: Question, model: LanguageModel, search: Search) -> bool:
    """Whether the weights, the pairs or other files have changed, so that the run cannot be resumed or completed."""
    now = fingerprints(question, model, question.load_pairs(), search)
    return bool(changed_files(begun.settings, now))


def _ablate(folder: RunFolder, question: Question, model: LanguageModel) -> None:
    """Run single-unit ablation on training pairs, for all units that the runs found."""
    found = [folder.intervention(run) for run in range(folder.runs_saved())]
    pairs = as_read(question, model, question.load_pairs())
    train = problem_of(question, model.in_bases(folder.bases()), question.divide(pairs)[0])
    units = sorted({unit for intervention in found for unit in intervention.units})
    rows = found_by_ablation(units, train)
    folder.write_json(ABLATION, Ablations(units={row.unit: row for row in rows}))


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0]


def _where(error: BaseException) -> str:
    """File and line of the innermost call."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return (
        f"{Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno}" if trace else "no traceback"
    )
