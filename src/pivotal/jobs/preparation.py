"""What a run does before it searches: ask the model, divide the pairs, and choose the folder."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pivotal.errors import PivotalError
from pivotal.jobs.machine import machine
from pivotal.jobs.messages import say_left_out
from pivotal.jobs.run_folder import RunFolder
from pivotal.models import LanguageModel
from pivotal.options import stored_settings
from pivotal.problem.bases import given_bases
from pivotal.problem.prepare import as_read, stays_of, training_problem
from pivotal.problem.problem import Problem
from pivotal.questions.pairs import PairSet
from pivotal.questions.question import Question
from pivotal.searches.base import Search
from pivotal.watch import Watch


@dataclass(frozen=True)
class Prepared:
    """A question made ready for a job: the training and the held-out pairs as problems, and the folder of the result.

    Nothing is written before `create_folder`, so that a request that is refused costs nothing.
    """

    question: Question
    settings: Mapping[str, Any]
    """Everything that decides the result."""
    path: Path
    """The folder that the job writes."""
    earlier: RunFolder | None
    """The folder, if an earlier process began or finished the same job there and it is not to be overwritten."""
    train: Problem
    test: Problem
    dropped: int
    """The number of pairs that are in neither problem, because they mix held-out words with other words."""
    merged: int
    """The number of lines of the file that repeat an earlier line."""
    notes: tuple[str, ...]
    """What the reader of the file inferred or left out."""

    @property
    def finished(self) -> RunFolder | None:
        """The folder, if the same job is finished there."""
        return self.earlier if self.earlier is not None and self.earlier.finished else None

    def say_pairs(self, watch: Watch) -> None:
        """Say how the pairs were read, and which are not used."""
        for note in self.notes:
            watch.say(note)
        say_left_out(watch, self.train, self.test, dropped=self.dropped, merged=self.merged)

    def create_folder(self, command: str, runs: int, *, overwrite: bool) -> RunFolder:
        """Create the folder, or open that of an unfinished job. The bases of the model are saved there."""
        model, seed = self.train.model, self.question.seed
        info = {
            "command": command,
            "model": model.describe(),
            "device": str(model.device),
            "machine": machine(model.device),
            "seeds": [seed + run for run in range(runs)],
        }
        folder = RunFolder.create(self.path, self.settings, overwrite=overwrite, info=info)
        folder.save_bases({name: basis.stored() for name, basis in model.bases.items()})
        return folder


def prepare(
    question: Question,
    model: LanguageModel,
    options: Mapping[str, Any],
    *,
    search: Search | None = None,
    out: str | None,
    overwrite: bool,
) -> Prepared:
    """Make a question ready. `options` are the settings of the job besides those of the question. `search` is that of a
    run."""
    pairs = question.load_pairs()
    asked = as_read(question, model, pairs)
    train_pairs, test_pairs = question.divide(asked)
    settings = {
        **stored_settings(question),
        **options,
        **fingerprints(question, model, pairs, search),
    }
    path = Path(out) if out else default_path(pairs.name, question.steps, model.name, settings)
    earlier = None if overwrite else RunFolder.of_job(path, settings)
    if earlier is None and not overwrite:
        RunFolder.check_place(path, settings)
    bases = {} if earlier is None else earlier.bases()
    train = training_problem(question, model.in_bases(bases), train_pairs)
    return Prepared(
        question=question,
        settings=settings,
        path=path,
        earlier=earlier,
        train=train,
        test=train.on(test_pairs),
        dropped=train_pairs.dropped,
        merged=pairs.merged,
        notes=asked.notes,
    )


def fingerprints(
    question: Question, model: LanguageModel, pairs: PairSet, search: Search | None = None
) -> dict[str, str]:
    """Identifies everything that the settings of a job name. Counterfactual prefixes decide what a search with the
    values `interchange` finds. They decide some of the evidence for every search."""
    found = {
        "model_fingerprint": model.fingerprint(),
        "data_fingerprint": pairs.fingerprint(),
        "held_out": str(pairs.held_out) if question.test is None else None,
        "counterfactual_fingerprint": pairs.counterfactual_fingerprint(),
        "keep_fingerprint": _joint([stay.fingerprint() for stay in stays_of(question, model)]),
        "sites_fingerprint": _joint(_bases(question, model)),
        "start_fingerprint": None if search is None else search.start_fingerprint(),
    }
    return {name: value for name, value in found.items() if value is not None}


def _bases(question: Question, model: LanguageModel) -> list[str]:
    """The fingerprints of the bases of the question's sites that no job makes. There are none if one cannot be read: a
    folder that holds the bases does without their files, and any other job raises the error when it needs them."""
    try:
        bases = given_bases(model, question.sites)
    except PivotalError:
        return []
    return [f"{name} {basis.fingerprint}" for name, basis in sorted(bases.items())]


def _joint(parts: Sequence[str]) -> str | None:
    """16 hex digits for several fingerprints; None if there are none."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16] if parts else None


def default_path(phenomenon: str, steps: str, model: str, settings: Mapping[str, Any]) -> Path:
    """`runs/<phenomenon>-<steps>-<model>`, numbered if that folder holds another run or other files."""
    name = "-".join(re.sub(r"[^\w.]+", "-", part).strip("-") for part in (phenomenon, steps, model))
    number = 1
    while True:
        path = Path("runs") / (name if number == 1 else f"{name}-{number}")
        if not path.exists() or (path.is_dir() and not any(path.iterdir())):
            return path
        if RunFolder.of_job(path, settings) is not None:
            return path
        number += 1
