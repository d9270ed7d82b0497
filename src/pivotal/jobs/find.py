"""The main job: load, split, search, evaluate on held-out pairs, and write the run folder."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from pivotal.errors import PivotalError
from pivotal.evidence import CONTROLS, MOST_CONTROLS
from pivotal.evidence.collect import LEVELS, Collection
from pivotal.evidence.knowledge import few_to_flip, knowledge_of, warnings_of
from pivotal.evidence.summarise import summarise
from pivotal.evidence.trace import trace_held_out
from pivotal.evidence.unit_profiles import profile_units
from pivotal.evidence.verdict import limit_of, verdict_of
from pivotal.files import differences, disk
from pivotal.jobs.checkpoint import RunCheckpoint
from pivotal.jobs.machine import machine
from pivotal.jobs.run_files import CHECKPOINT, INTERVENTIONS, RUN, SUMMARY, TRACES, UNITS
from pivotal.jobs.run_folder import History, RunFolder, default_path
from pivotal.models import LanguageModel
from pivotal.models.bases import in_bases
from pivotal.models.torch_file import UNREADABLE
from pivotal.options import stored_settings
from pivotal.problem.examples import Examples
from pivotal.problem.outcome import Work
from pivotal.problem.prepare import as_read, model_of, stays_of, training_problem
from pivotal.problem.problem import Problem
from pivotal.questions.joint import names_of
from pivotal.questions.pairs import PairSet
from pivotal.questions.question import Question
from pivotal.records import serial
from pivotal.records.basis import StoredBasis
from pivotal.records.evidence import Evidence, Level
from pivotal.records.run import Kind
from pivotal.records.summary import Seconds, Summary
from pivotal.records.traces import Traces
from pivotal.records.unit_profiles import UnitProfiles
from pivotal.searches.base import Discovery, Progress, Search, check_runs
from pivotal.searches.by_name import bounded, settled
from pivotal.searches.learned import LearnedMask
from pivotal.searches.progress import bars
from pivotal.stopping import Stop, saying, signals


@runtime_checkable
class Watch(Protocol):
    """Receives messages and progress while a job runs."""

    def say(self, text: str) -> None: ...

    def progress(self, progress: Progress) -> None: ...


@dataclass(frozen=True)
class Finding:
    """A finished run."""

    folder: RunFolder
    summary: Summary
    already: bool = False
    """Whether it was finished before, so that nothing was run."""


def find(
    question: Question | None = None,
    search: Search | None = None,
    *,
    runs: int = 1,
    controls: int = CONTROLS,
    evidence: Level = "quick",
    others: Sequence[PairSet | Examples] | None = None,
    out: str | None = None,
    overwrite: bool = False,
    device: str | None = None,
    batch_nodes: int | None = None,
    model: LanguageModel | None = None,
    command: str = "",
    watch: Watch | None = None,
    progress: bool = False,
) -> Finding:
    """Answer a question with a search, with `runs` seeds at once, and store everything in a run folder.

    By default the question is `Question()` and the search `LearnedMask()`. The best run is compared with `controls`
    random sets of units, whose values are learned in the same way; 0 skips that. `evidence` is how much more is checked
    before the verdict; "full" repeats the search with permuted labels and with shuffled weights. `others` are phenomena
    that are asked with the intervention applied; by default, "full" asks every bundled phenomenon. `model` is the
    question's model, if it is already loaded. A run that was stopped is resumed, and a finished one is read from its
    folder, unless `overwrite` is set. `progress=True` shows a bar in a notebook or a terminal.
    """
    if progress:
        with bars() as shown:
            return find(
                question,
                search,
                runs=runs,
                controls=controls,
                evidence=evidence,
                others=others,
                out=out,
                overwrite=overwrite,
                device=device,
                batch_nodes=batch_nodes,
                model=model,
                command=command,
                watch=shown,
            )
    question, watch = question or Question(), watch or Nobody()
    search = settled(search or LearnedMask(), question.steps)
    if question.keep:
        search = bounded(search, names_of(question.keep))
    if not 0 <= controls <= MOST_CONTROLS:
        raise PivotalError(
            f"The number of controls must be 0 to {MOST_CONTROLS:,}, but controls is {controls:,}.",
            "controls",
        )
    check_runs(runs, question.seed)
    started = time.monotonic()
    model = model or model_of(question, device, batch_nodes)
    pairs = question.load_pairs()
    if model.describe() != model.name:
        watch.say(f"{model.describe()}.")
    asked = as_read(question, model, pairs)
    train_pairs, test_pairs = question.divide(asked)
    settings = _settings(question, search, runs, model, pairs)
    path = out or default_path(pairs.name, question.steps, model.name, settings)
    there = {} if overwrite else bases_of(path, settings, "run")
    train = training_problem(question, in_bases(model, there), train_pairs)
    test = train.on(test_pairs)
    # Checked before anything is written: with --overwrite, a bad request must not delete the existing run.
    search.check(train, runs, question.seed)
    loaded = time.monotonic() - started

    collection = Collection(search, evidence, question.seed, others, watch.progress)
    if not overwrite and (done := finished_folder(path, settings, "run")) is not None:
        # A kill after the result was written may have left the checkpoint.
        with disk(done.path):
            (done.path / CHECKPOINT).unlink(missing_ok=True)
        if not _enough(done.summary(), evidence, others):
            return Finding(done, _add_evidence(done, collection, train, test))
        return Finding(done, done.summary(), already=True)
    if not overwrite:
        RunFolder.check_place(path, settings)
    for note in asked.notes:
        watch.say(note)
    say_left_out(watch, train, test, train_pairs.dropped, pairs.merged)
    _say_known(watch, train, test)
    if limit := limit_of(controls):
        watch.say(limit)
    info = {
        "command": command,
        "model": model.describe(),
        "device": str(model.device),
        "machine": machine(model.device),
        "seeds": [question.seed + r for r in range(runs)],
    }
    folder = RunFolder.create(path, settings, overwrite=overwrite, info=info)
    folder.save_bases({name: basis.stored() for name, basis in train.model.bases.items()})
    history = History(folder)
    # Measured before the checkpoint restores the cost of an earlier process, so that it is counted once.
    train.measure_activations()
    train.bounds()
    with signals() as stop:
        checkpoint = RunCheckpoint(folder, history, train.work, stop, train.model.bases)
        if checkpoint.resumed:
            watch.say(f"Resuming the run in {folder.path} after {checkpoint.seconds:.0f} s.")
        try:
            found = _search(search, train, runs, question.seed, history, checkpoint, stop, watch)
            # The controls use the training pairs too, so the cost of the search is read before them.
            work = Work(train.work.forward, train.work.backward)
            searching, searched = checkpoint.seconds, time.monotonic()
            summary, scores = summarise(
                found,
                train,
                test,
                seed=question.seed,
                work=work,
                terms=search.terms,
                controls=controls,
                dropped=train_pairs.dropped,
                merged=pairs.merged,
                stays=stays_of(question, model),
                progress=watch.progress,
            )
            summary = judged(summary, collection.of(found.best, train, test))
            traces = trace_held_out(found.best, test, scores.outcomes, run=found.best_run, seed=question.seed)
            profiles = profile_units(found.best, test, run=found.best_run)
            seconds = _seconds(loaded, searching, time.monotonic() - searched)
            summary = serial.replace(summary, seconds=seconds)
            _write(folder, found, summary, traces, profiles)
            checkpoint.remove()
        except KeyboardInterrupt as stopped:
            raise saying(stopped, _farewell(folder)) from None
        except PivotalError:
            if history.rows == 0 and not checkpoint.resumed:
                folder.discard()  # a request that could not start must not block the corrected one
            raise
        finally:
            history.close()
    return Finding(folder, summary)


def judged(summary: Summary, evidence: Evidence) -> Summary:
    """The summary with the evidence and the verdict that follows from it."""
    summary = serial.replace(summary, evidence=evidence)
    return serial.replace(summary, verdict=verdict_of(summary))


def _enough(summary: Summary, wanted: Level, others: Sequence[PairSet | Examples] | None) -> bool:
    there = summary.evidence or Evidence(level="none")
    asked = others is None or wanted == "none" or bool(there.effects)
    return asked and LEVELS.index(there.level) >= LEVELS.index(wanted)


def _add_evidence(folder: RunFolder, collection: Collection, train: Problem, test: Problem) -> Summary:
    """Collect the evidence that a finished run lacks, and write its summary again. No evidence is lost: if the run has
    more than is wanted now, as much is collected again."""
    there = folder.summary().evidence
    level = max(collection.level, "none" if there is None else there.level, key=LEVELS.index)
    collection = dataclasses.replace(collection, level=level)
    summary = judged(folder.summary(), collection.of(folder.intervention(), train, test))
    folder.write_json(SUMMARY, summary)
    return summary


def finished_folder(path: str | Path, settings: Mapping[str, Any], kind: Kind) -> RunFolder | None:
    """The folder at `path`, if it holds this run or comparison and is finished."""
    if not (Path(path) / RUN).is_file():
        return None
    found = RunFolder.open(path)
    same = found.kind == kind and not differences(found.settings, serial.plain(settings))
    return found if same and found.finished else None


def bases_of(path: str | Path, settings: Mapping[str, Any], kind: Kind) -> dict[str, StoredBasis]:
    """The bases that an earlier process made for the same run or comparison."""
    if not (Path(path) / RUN).is_file():
        return {}
    found = RunFolder.open(path)
    same = found.kind == kind and not differences(found.settings, serial.plain(settings))
    return found.bases() if same else {}


def _settings(
    question: Question, search: Search, runs: int, model: LanguageModel, pairs: PairSet
) -> dict[str, Any]:
    return {
        **stored_settings(question),
        "runs": runs,
        "search": {"name": search.name, **stored_settings(search)},
        "model_fingerprint": model.fingerprint(),
        "data_fingerprint": pairs.fingerprint(),
    }


def _search(
    search: Search,
    train: Problem,
    runs: int,
    seed: int,
    history: History,
    checkpoint: RunCheckpoint,
    stop: Stop,
    watch: Watch,
) -> Discovery:
    def progress(step: Progress) -> None:
        history.append(step)
        watch.progress(step)

    before = history.rows
    try:
        found = checkpoint.discovery()
        if found is None:
            with stop.deferred():
                found = search.solve(train, runs=runs, seed=seed, progress=progress, checkpoint=checkpoint)
                checkpoint.finish(found)
    except UNREADABLE as error:
        # Before its first report, a resumed search has only read the checkpoint.
        if not checkpoint.resumed or history.rows > before:
            raise
        raise checkpoint.unusable(error) from error
    return found


def _write(
    folder: RunFolder, found: Discovery, summary: Summary, traces: Traces, profiles: UnitProfiles
) -> None:
    scores = ("flip_accuracy", "interval", "kl", "kl_after_edit")
    scored = [
        dataclasses.replace(i, scores=serial.plain({name: getattr(run, name) for name in scores}))
        for i, run in zip(found.interventions, summary.runs, strict=True)
    ]
    folder.save_interventions(scored)
    folder.write_text(TRACES, traces.dumps())
    folder.write_json(UNITS, profiles)
    folder.write_json(SUMMARY, summary)


def _say_known(watch: Watch, train: Problem, test: Problem) -> None:
    """Report what the untouched model knows of the held-out pairs. The run continues in any case; the verdict uses the
    same figures."""
    known = knowledge_of(test)
    watch.say(f"Held-out pairs: {known.told()}")
    share = len(test) / (len(train) + len(test))
    for warning in (*warnings_of(known), *few_to_flip(known.prefixes_towards, known.clusters, share)):
        watch.say(f"Warning: {warning}")
    for group in sorted(train.pairs.groups.keys() - test.pairs.groups.keys()):
        watch.say(
            f"Warning: No pair of {group or 'the unnamed group'} is held out. Hold out more with --test."
        )


def say_left_out(watch: Watch, train: Problem, test: Problem, dropped: int, merged: int = 0) -> None:
    """Say which pairs are not used."""
    if merged:
        watch.say(
            f"{merged:,} line{'s' * (merged != 1)} of the file repeat an earlier line and were read once."
        )
    both = train.rejected + test.rejected
    if both.total:
        total = both.total + len(train) + len(test)
        watch.say(
            f"Skipped {both.total:,} of {total:,} pairs that {train.model.name} cannot be asked: "
            f"{both.describe()}."
        )
    if both.left_out:
        watch.say(f"Left some words out of their sets: {both.describe_left_out()}.")
    if dropped:
        watch.say(
            f"Left out {dropped:,} pair{'s' * (dropped != 1)} with both held-out and training words: {len(train):,} to "
            f"train on, {len(test):,} held out."
        )


def _seconds(load: float, search: float, evaluation: float) -> Seconds:
    return Seconds(
        load=round(load, 2),
        search=round(search, 2),
        evaluate=round(evaluation, 2),
        total=round(load + search + evaluation, 2),
    )


def _farewell(folder: RunFolder) -> str:
    command = (folder.info.command or "").replace(" --overwrite", "")
    if not (folder.path / CHECKPOINT).is_file():
        again = f"Start again with: {command}" if command else "The same job starts again."
        return f"Stopped before there was a checkpoint in {folder.path}. {again}"
    resume = f"Resume with: {command}" if command else "The same job with the same folder resumes."
    units = f", and the current interventions under {INTERVENTIONS}/" if folder.runs_saved() else ""
    return f"Stopped; the checkpoint is saved in {folder.path}{units}. {resume}"


class Nobody:
    """A watch that ignores everything."""

    def say(self, text: str) -> None:
        pass

    def progress(self, progress: Progress) -> None:
        pass
