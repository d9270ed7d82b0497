"""The main job: load, split, search, evaluate on held-out pairs, and write the run folder."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import dataclass
from typing import Any

from pivotal.errors import PivotalError, check_whole
from pivotal.evidence import CONTROLS, MOST_CONTROLS
from pivotal.evidence.controls import random_control
from pivotal.evidence.examination import Examination
from pivotal.evidence.knowledge import knowledge_of
from pivotal.evidence.side_effects import names_asked, unanswered
from pivotal.evidence.summarise import Collection, check_level, has_level, summarise
from pivotal.evidence.trace import trace_held_out
from pivotal.evidence.unit_profiles import profile_units
from pivotal.evidence.verdict import limit_of, verdict_of
from pivotal.files import disk
from pivotal.jobs.checkpoint import History, RunCheckpoint
from pivotal.jobs.preparation import Prepared, prepare
from pivotal.jobs.run_folder import CHECKPOINT, INTERVENTIONS, SUMMARY, TRACES, UNITS, RunFolder
from pivotal.models import LanguageModel
from pivotal.models.tensors import UNREADABLE
from pivotal.options import stored_settings
from pivotal.printing import duration
from pivotal.problem.batch import Work
from pivotal.problem.prepare import checked_model, model_of
from pivotal.problem.problem import Problem
from pivotal.questions.pairs import PairSet
from pivotal.questions.question import Question, names_of
from pivotal.records import serial
from pivotal.records.evidence import Knowledge, Level
from pivotal.records.intervention import Intervention
from pivotal.records.run import Progress
from pivotal.records.summary import Seconds, Summary
from pivotal.searches import bounded, settled
from pivotal.searches.base import Discovery, Search, check_runs
from pivotal.searches.exchange import Exchange
from pivotal.stopping import Stop, saying, signals
from pivotal.watch import Silent, Watch, display


@dataclass(frozen=True)
class Finding:
    """A finished run."""

    folder: RunFolder
    summary: Summary
    already: bool = False
    """Whether the run was finished before and nothing was added."""

    @property
    def intervention(self) -> Intervention:
        """The intervention of the best run."""
        return self.folder.intervention()

    def to_frame(self) -> Any:
        """A data frame with a row for each run: its scores and its units."""
        return self.summary.to_frame()

    def __repr__(self) -> str:
        return f"{self.summary}\nThe run is in {self.folder.path}."

    def _repr_html_(self) -> str:
        from pivotal.report.notebook import result_html

        return result_html(self.summary)


def find(
    question: Question | None = None,
    search: Search | None = None,
    *,
    runs: int = 1,
    controls: int = CONTROLS,
    evidence: Level = "quick",
    others: Sequence[PairSet | Problem] | None = None,
    out: str | None = None,
    overwrite: bool = False,
    force: bool = False,
    device: str | None = None,
    batch_nodes: int | None = None,
    model: LanguageModel | None = None,
    pairs: PairSet | None = None,
    command: str = "",
    watch: Watch | None = None,
    progress: bool = False,
    report: Callable[[RunFolder], object] | None = None,
) -> Finding:
    """Answer a question with a search, with `runs` seeds at once, and store everything in a run folder.

    By default the question is `Question()` and the search `Exchange()`. The best run is compared with `controls`
    random sets of units, whose values are learned in the same way; 0 skips that. `evidence` is how much more is checked
    before the verdict; "full" repeats the search with permuted labels. `others` are phenomena
    that are asked with the intervention applied; by default, "full" asks every bundled phenomenon. `model` and
    `pairs` are those of the question, if they are already loaded; a model that the question clearly does not mean is
    refused (`pivotal.problem.prepare.checked_model`). A run that was stopped is resumed. A finished one is read from
    its folder, and the random sets and checks that it lacks are added; `overwrite` runs it again instead.
    `force` searches even if the pairs are too few to show anything. `progress=True` shows a bar in a notebook or a
    terminal. `report` writes what is made from a finished run, while no other process can change the folder; it is
    called if the run has changed, or if it has no report.
    """
    started, question = time.monotonic(), question or Question()
    search = _settled(search or Exchange(), question)
    check_controls(controls)
    check_level(evidence)
    check_runs(runs, question.seed)
    shown: AbstractContextManager[Watch] = display() if progress else nullcontext(watch or Silent())
    with ExitStack() as held:
        watching = held.enter_context(shown)
        model = model_of(question, device, batch_nodes) if model is None else checked_model(question, model)
        if model.describe() != model.name:
            watching.say(f"{model.describe()}.")
        options = {"runs": runs, "search": {"name": search.name, **stored_settings(search)}}
        asked = held.enter_context(
            prepare(
                question,
                model,
                options,
                search=search,
                pairs=pairs,
                out=out,
                overwrite=overwrite,
                report=watching.progress,
                force=force,
            )
        )
        # Checked before anything is written: with `overwrite`, a bad request must not delete the existing run.
        search.check(asked.train, runs, question.seed)
        collection = Collection(search, evidence, question.seed, others, watching.progress)
        if asked.finished is not None:
            finding = _completed(asked.finished, asked, controls, collection)
        else:
            seconds_to_load = time.monotonic() - started
            knowledge = knowledge_of(asked.test)
            asked.say_pairs(watching, knowledge)
            if limit := limit_of(controls):
                watching.say(limit)
            folder = asked.open_folder(command, runs)
            run = _Run(asked, folder, search, runs, controls, collection, knowledge, watching)
            finding = run.complete(seconds_to_load)
        if report is not None and not (finding.already and finding.folder.report.is_file()):
            report(finding.folder)
        return finding


def _settled(search: Search, question: Question) -> Search:
    """The search with the settings that depend on the question: the number of units, and bounds for what must stay."""
    search = settled(search, question.steps)
    return bounded(search, names_of(question.keep)) if question.keep else search


def check_controls(controls: int) -> None:
    check_whole(0, MOST_CONTROLS, controls=controls)


def _completed(folder: RunFolder, asked: Prepared, controls: int, collection: Collection) -> Finding:
    """The finished run in a folder, with the random sets and the evidence that it lacks. Nothing is taken away: a run
    that has more than is wanted keeps it."""
    with disk(folder.path):  # a kill after the result was written may have left the checkpoint
        (folder.path / CHECKPOINT).unlink(missing_ok=True)
    summary = before = folder.summary()
    examination = Examination(folder.intervention(), asked.test)
    if summary.controls.sets < controls:
        collection.progress(Progress("random sets", 0, 1))
        terms, seed = collection.search.terms, asked.question.seed
        # The same as in a run that had this number of random sets from the start.
        control = random_control(examination, asked.train, controls, terms, seed)
        summary = serial.replace(summary, controls=control)
    others = [] if collection.level == "none" else names_asked(collection.others or ())
    if before.evidence is None or not has_level(before.evidence, collection.level):
        evidence = collection.of(examination, asked.train, summary.controls, before.evidence)
        summary = serial.replace(summary, evidence=evidence)
    elif unanswered(before.evidence, before.phenomenon, others):
        evidence = collection.with_others(before.evidence, examination)
        summary = serial.replace(summary, evidence=evidence)
    if summary is before:
        return Finding(folder, before, already=True)
    summary = _judged(summary)
    with disk(folder.path):  # a kill must not leave the report of the former summary
        folder.report.unlink(missing_ok=True)
    folder.write_json(SUMMARY, summary)
    return Finding(folder, summary)


def _judged(summary: Summary) -> Summary:
    """The summary with the verdict that follows from it."""
    return serial.replace(summary, verdict=verdict_of(summary))


@dataclass(frozen=True)
class _Run:
    """A run that is new, or that an earlier process began: search, score, write."""

    asked: Prepared
    folder: RunFolder
    search: Search
    runs: int
    controls: int
    collection: Collection
    knowledge: Knowledge
    """What the untouched model knows of the held-out pairs."""
    watch: Watch

    def complete(self, seconds_to_load: float) -> Finding:
        """Do all that is left of the run. If it is stopped, it can be resumed from its checkpoint."""
        train, folder = self.asked.train, self.folder
        with closing(History(folder)) as history, signals() as stop:
            try:
                # Measured before the checkpoint restores the cost of an earlier process, so that it is counted once.
                train.measure_activations()
                train.bounds()
                checkpoint = RunCheckpoint(folder, history, train.work, stop)
                if checkpoint.resumed:
                    self.watch.say(f"Resuming the run in {folder.path} after {duration(checkpoint.seconds)}.")
                found = self._search(history, checkpoint, stop)
                # Scoring uses the training pairs too, so the cost of the search is read before it.
                work, searching = dataclasses.replace(train.work), checkpoint.seconds
                finding = self._score_and_write(found, work, seconds_to_load, searching)
                checkpoint.remove()
            except KeyboardInterrupt as stopped:
                raise saying(stopped, _farewell(folder)) from None
            except PivotalError:
                if history.rows == 0 and not (folder.path / CHECKPOINT).is_file():
                    folder.discard()  # a request that could not start must not block the corrected one
                raise
        return finding

    def _search(self, history: History, checkpoint: RunCheckpoint, stop: Stop) -> Discovery:
        """What the search finds, or found before an earlier process was stopped."""

        def progress(step: Progress) -> None:
            history.append(step)
            self.watch.progress(step)

        if (found := checkpoint.discovery()) is not None:
            return found
        before, asked = history.rows, self.asked
        try:
            with stop.deferred():
                found = self.search.solve(
                    asked.train,
                    runs=self.runs,
                    seed=asked.question.seed,
                    progress=progress,
                    checkpoint=checkpoint,
                )
                checkpoint.finish(found)
        except UNREADABLE as error:
            # Before its first report, a resumed search has only read the checkpoint.
            if not checkpoint.resumed or history.rows > before:
                raise
            raise checkpoint.unusable(error) from error
        return found

    def _score_and_write(self, found: Discovery, work: Work, loading: float, searching: float) -> Finding:
        """Score what was found on held-out pairs, judge it, and write the files of the run. The summary is written
        last, because it marks the run as finished."""
        started, asked, folder = time.monotonic(), self.asked, self.folder
        best, seed = found.best_run, asked.question.seed
        examinations = [Examination(i, asked.test, knowledge=self.knowledge) for i in found.interventions]
        summary = summarise(
            found,
            examinations,
            asked.train,
            seed=seed,
            work=work,
            terms=self.search.terms,
            controls=self.controls,
            dropped=asked.dropped,
            merged=asked.merged,
            stays=asked.stays,
            progress=self.watch.progress,
        )
        examination = examinations[best]
        evidence = self.collection.of(examination, asked.train, summary.controls)
        summary = _judged(serial.replace(summary, evidence=evidence))
        traces = trace_held_out(examination, run=best, seed=seed)
        profiles = profile_units(examination, run=best)
        spent = {"load": loading, "search": searching, "evaluate": time.monotonic() - started}
        spent = {name: round(value, 2) for name, value in (*spent.items(), ("total", sum(spent.values())))}
        summary = serial.replace(summary, seconds=Seconds(**spent))
        folder.save_interventions(_scored(found.interventions, summary))
        folder.write_text(TRACES, traces.dumps())
        folder.write_json(UNITS, profiles)
        folder.write_json(SUMMARY, summary)
        return Finding(folder, summary)


def _scored(interventions: Sequence[Intervention], summary: Summary) -> list[Intervention]:
    """The interventions with their scores on the card."""
    names = ("flip_accuracy", "interval", "kl", "kl_after_edit")
    return [
        dataclasses.replace(i, scores=serial.plain({name: getattr(run, name) for name in names}))
        for i, run in zip(interventions, summary.runs, strict=True)
    ]


def _farewell(folder: RunFolder) -> str:
    command = (folder.info.command or "the same call").replace(" --overwrite", "")
    if not (folder.path / CHECKPOINT).is_file():
        return f"Stopped before there was a checkpoint in {folder.path}. Start again with: {command}"
    units = f", and the current interventions under {INTERVENTIONS}/" if folder.runs_saved() else ""
    return f"Stopped; the checkpoint is saved in {folder.path}{units}. Resume with: {command}"
