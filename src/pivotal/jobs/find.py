"""The main job from end to end: load, split, search, evaluate on held-out pairs, keep it in the run folder."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from pivotal.errors import PivotalError
from pivotal.evidence.summarise import CONTROLS, summarise
from pivotal.evidence.trace import trace_held_out
from pivotal.jobs.checkpoint import RunCheckpoint
from pivotal.jobs.machine import machine
from pivotal.jobs.run_folder import (
    CHECKPOINT,
    INTERVENTIONS,
    SUMMARY,
    TRACES,
    History,
    RunFolder,
    default_path,
)
from pivotal.models import LanguageModel, load_model
from pivotal.problem.problem import Problem, Work
from pivotal.questions.pairs import PairSet
from pivotal.questions.phenomena import load_phenomenon
from pivotal.records import serial
from pivotal.records.summary import Seconds, Summary
from pivotal.records.traces import Traces
from pivotal.searches.base import Discovery, Progress, Search

_TEST = {"number-agreement": 1000, "lakretz": 1000, "gender-bias": 200, "vig": 200}
"""Held-out pairs as in the paper; of other phenomena a fifth."""


@runtime_checkable
class Watch(Protocol):
    """Whoever looks on while a job runs."""

    def say(self, text: str) -> None: ...

    def progress(self, progress: Progress) -> None: ...


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with a sentence on what was saved."""


@dataclass(frozen=True)
class Question:
    """Which pairs are asked of which model, and how; a run folder keeps it, so that it can be asked again."""

    model: str = "wiki-lstm"
    phenomenon: str = "number-agreement"
    steps: str = "every"
    sites: str = "all"
    split: str = "random"
    test: int | float | None = None
    """Held-out pairs, as a number or a fraction; None leaves it to `default_test`."""
    seed: int = 0
    priming: str | None = None
    dtype: str | None = None
    """What the model computes in; None is the model's own."""
    split_seed: int | None = None
    """Decides the split alone, so that runs with other seeds are asked the same pairs; None leaves it to `seed`."""

    @staticmethod
    def of(settings: Mapping[str, Any]) -> Question:
        """The question of a run, from its settings."""
        return serial.convert(settings, Question, "The settings of the run")

    def load_model(self, device: str | None = None, batch_nodes: int | None = None) -> LanguageModel:
        return load_model(
            self.model, device=device, dtype=self.dtype, priming=self.priming, batch_nodes=batch_nodes
        )

    def load_pairs(self) -> PairSet:
        return load_phenomenon(self.phenomenon)

    def divide(self, pairs: PairSet) -> tuple[PairSet, PairSet]:
        """(train, test)."""
        test = default_test(self.phenomenon, len(pairs)) if self.test is None else self.test
        seed = self.seed if self.split_seed is None else self.split_seed
        return pairs.split(test=test, seed=seed, by=self.split)

    def problem(self, model: LanguageModel, pairs: PairSet) -> Problem:
        return Problem(model, pairs, sites=self.sites, steps=self.steps)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Finding:
    """A finished job."""

    folder: RunFolder
    summary: Summary


def default_test(phenomenon: str, pairs: int) -> int:
    most = max(1, pairs // 5)
    return min(_TEST.get(phenomenon.partition(":")[0], most), most)


def find(
    question: Question,
    search: Search,
    *,
    runs: int = 1,
    controls: int = CONTROLS,
    out: str | None = None,
    overwrite: bool = False,
    device: str | None = None,
    batch_nodes: int | None = None,
    model: LanguageModel | None = None,
    command: str = "",
    watch: Watch | None = None,
) -> Finding:
    """Solve the question with a search, `runs` times at once, and keep all about it in the run folder.

    The best run is compared with so many `controls`, random sets whose values are learned alike; 0 leaves that out.
    `model` is the question's, for whoever has loaded it already.
    """
    watch = watch or Nobody()
    if controls < 0:
        raise PivotalError(f"There are 0 controls or more, but controls is {controls}.", "controls")
    if runs < 1:
        raise PivotalError(f"A search needs at least one run, but runs is {runs}.")
    started = time.monotonic()
    model = model or question.load_model(device, batch_nodes)
    pairs = question.load_pairs()
    if model.describe() != model.name:
        watch.say(f"{model.describe()}.")
    train_pairs, test_pairs = question.divide(pairs)
    train, test = question.problem(model, train_pairs), question.problem(model, test_pairs)
    # Before anything is written: with --overwrite a bad request must not cost the run that is there.
    search.check(train, runs, question.seed)
    loaded = time.monotonic() - started
    say_left_out(watch, train, test, train_pairs.dropped)

    settings = _settings(question, search, runs, model, pairs)
    path = out or default_path(pairs.name, question.steps, model.name, settings)
    info = {
        "command": command,
        "model": model.describe(),
        "device": str(model.device),
        "machine": machine(model.device),
        "seeds": [question.seed + r for r in range(runs)],
    }
    folder = RunFolder.create(path, settings, overwrite=overwrite, info=info)
    history = History(folder)
    _ = (
        train.activations
    )  # looked at before the work of an earlier process is taken over, so that it counts once
    checkpoint = RunCheckpoint(folder, history, train.work)
    if checkpoint.resumed:
        watch.say(f"Going on with the run in {folder.path}, {checkpoint.seconds:.0f} s into it.")
    try:
        found = _search(search, train, runs, question.seed, history, checkpoint, watch)
        # The controls will work on the training pairs too; what the search spent is what it spent up to here.
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
            progress=watch.progress,
        )
        traces = trace_held_out(found.best, test, scores.outcomes, run=found.best_run, seed=question.seed)
        summary = serial.replace(summary, seconds=_seconds(loaded, searching, time.monotonic() - searched))
        _write(folder, found, summary, traces)
        checkpoint.remove()
    except KeyboardInterrupt:
        raise Interrupted(_farewell(folder)) from None
    except PivotalError:
        if history.rows == 0 and not checkpoint.resumed:
            folder.discard()  # a request that could not even begin should not block the corrected one
        raise
    finally:
        history.close()
    return Finding(folder, summary)


def _settings(
    question: Question, search: Search, runs: int, model: LanguageModel, pairs: PairSet
) -> dict[str, Any]:
    options: dict[str, Any] = dataclasses.asdict(search) if dataclasses.is_dataclass(search) else {}
    return {
        **dataclasses.asdict(question),
        "runs": runs,
        "search": {"name": search.name, **options},
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
    watch: Watch,
) -> Discovery:
    def progress(step: Progress) -> None:
        history.append(step)
        watch.progress(step)

    found = checkpoint.discovery()
    if found is None:
        with checkpoint.stopping_between_steps():
            found = search.solve(train, runs=runs, seed=seed, progress=progress, checkpoint=checkpoint)
            checkpoint.finish(found)
    return found


def _write(folder: RunFolder, found: Discovery, summary: Summary, traces: Traces) -> None:
    scores = ("flip_accuracy", "interval", "kl", "kl_after_edit")
    scored = [
        dataclasses.replace(i, scores=serial.plain({name: getattr(run, name) for name in scores}))
        for i, run in zip(found.interventions, summary.runs, strict=True)
    ]
    folder.save_interventions(scored)
    folder.write_text(TRACES, traces.dumps())
    folder.write_json(SUMMARY, summary)


def say_left_out(watch: Watch, train: Problem, test: Problem, dropped: int) -> None:
    skipped = train.rejected.total + test.rejected.total
    if skipped:
        both = type(train.rejected)(train.rejected.reasons + test.rejected.reasons)
        total = skipped + len(train) + len(test)
        watch.say(
            f"Skipped {skipped:,} of {total:,} pairs, which {train.model.name} cannot be asked: "
            f"{both.describe()}."
        )
    if dropped:
        watch.say(
            f"Left out {dropped:,} pairs, which mix held-out words with others: {len(train):,} to train on, "
            f"{len(test):,} held out."
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
        again = f"Begin again with: {command}" if command else "The same job begins again."
        return f"Stopped before there was a checkpoint in {folder.path}. {again}"
    go_on = f"Go on with: {command}" if command else "The same job with the same folder goes on from there."
    reached = folder.runs_saved()
    units = f", and under {INTERVENTIONS}/ the {reached} reached so far" if reached else ""
    return f"Stopped; the checkpoint is saved in {folder.path}{units}. {go_on}"


class Nobody:
    """A watch that does not look."""

    def say(self, text: str) -> None:
        pass

    def progress(self, progress: Progress) -> None:
        pass
