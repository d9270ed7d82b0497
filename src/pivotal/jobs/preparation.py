"""What a run does before it searches: ask the model, divide the pairs, and choose the folder."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pivotal.errors import PivotalError
from pivotal.evidence.knowledge import few_to_flip, not_unseen, warnings_of
from pivotal.files import slug
from pivotal.folders import LOCK, locked
from pivotal.jobs.changes import changes
from pivotal.jobs.run_folder import REPLACED, RUN, RunFolder
from pivotal.models import LanguageModel
from pivotal.options import stored_settings
from pivotal.problem.bases import given_bases
from pivotal.problem.kept import Stay
from pivotal.problem.prepare import as_read, stays_of, too_few, training_problem
from pivotal.problem.problem import Problem
from pivotal.questions.pairs import PairSet
from pivotal.questions.question import Question
from pivotal.records import serial
from pivotal.records.evidence import Knowledge
from pivotal.records.run import Progress, RunRecord
from pivotal.records.summary import told_reasons
from pivotal.searches.base import Search
from pivotal.watch import Watch


@dataclass(frozen=True)
class Prepared:
    """A question made ready for a run: the training and the held-out pairs as problems, and the folder of the result,
    whose lock is held.

    Nothing is written before `open_folder`, so that a request that is refused costs nothing.
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
    stays: Sequence[Stay]
    """The questions and texts that must stay."""
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

    def say_pairs(self, watch: Watch, knowledge: Knowledge) -> None:
        """Say how the pairs were read, which are not used, and what the untouched model knows of the held-out ones. The
        run continues in any case; the verdict uses the same figures."""
        train, test = self.train, self.test
        for note in (*self.notes, *self._left_out(), f"Held-out pairs: {knowledge.told()}"):
            watch.say(note)
        share = len(test) / (len(train) + len(test))
        few = few_to_flip(knowledge.prefixes_towards, knowledge.clusters, share)
        for warning in (*warnings_of(knowledge, test.whole.pairs), *few):
            watch.say(f"Warning: {warning}")
        for group in sorted(train.pairs.groups.keys() - test.pairs.groups.keys()):
            name = group or "the unnamed group"
            watch.say(f"Warning: No pair of {name} is held out. Hold out more with --test.")

    def _left_out(self) -> Iterator[str]:
        """Which pairs and words are not used."""
        train, test, both = self.train, self.test, self.train.rejected + self.test.rejected
        if self.merged:
            yield f"Lines of the file that repeat an earlier line and are ignored: {self.merged:,}."
        if both.total:
            total = both.total + len(train) + len(test)
            yield f"{train.model.name} cannot score {both.total:,} of {total:,} pairs: {both.describe()}."
        if both.left_out:
            yield f"Left some words out of their sets: {told_reasons(dict(both.left_out.most_common()))}."
        if self.dropped:
            yield (
                f"Pairs left out because they have both held-out and training words: {self.dropped:,}. There are "
                f"{len(train):,} to train on, and {len(test):,} are held out."
            )
        yield from (f"Warning: {said}" for said in not_unseen(self.question.test, train.pairs, test.pairs))

    def open_folder(self, command: str, runs: int) -> RunFolder:
        """The folder of the unfinished run, or a new one. The bases of the model are saved there."""
        if self.earlier is not None:
            return self.earlier
        model, seed = self.train.model, self.question.seed
        info = {
            "command": command,
            "model": model.describe(),
            "in_memory": model.in_memory,
            "device": str(model.device),
            "machine": machine(model.device),
            "seeds": [seed + run for run in range(runs)],
        }
        folder = RunFolder.create(self.path, self.settings, info)
        folder.save_bases({name: basis.stored() for name, basis in model.bases.items()})
        return folder


@contextmanager
def prepare(
    question: Question,
    model: LanguageModel,
    options: Mapping[str, Any],
    *,
    search: Search | None = None,
    pairs: PairSet | None = None,
    out: str | None,
    overwrite: bool,
    report: Callable[[Progress], None],
    force: bool = False,
) -> Iterator[Prepared]:
    """Make a question ready, and hold the lock of the folder within the block. `options` are the settings of the run
    besides those of the question. `report` receives the progress of bases that are fitted. Pairs that are too few to
    show anything are refused, unless `force` is true."""
    pairs = question.load_pairs(pairs)
    asked = as_read(question, model, pairs)
    train_pairs, test_pairs = question.divide(asked)
    stays = stays_of(question, model)
    settings = {**stored_settings(question), **options, **fingerprints(question, model, pairs, search, stays)}
    path = Path(out) if out else default_path(pairs.name, question.steps, model.name, settings)
    with locked(path):
        earlier = None if overwrite else RunFolder.of_job(path, settings)
        if earlier is not None:
            earlier.remove_partials()
        else:
            RunFolder.check_free(path, settings, overwrite=overwrite)
        bases = {} if earlier is None else earlier.bases()
        train = training_problem(question, model.in_bases(bases), train_pairs, stays, report)
        test = train.on(test_pairs)
        if not force and (reason := too_few(train.pairs, test.pairs)):
            raise PivotalError(f"{reason} --force searches all the same.")
        yield Prepared(
            question=question,
            settings=settings,
            path=path,
            earlier=earlier,
            train=train,
            test=test,
            stays=stays,
            dropped=train_pairs.dropped,
            merged=pairs.merged,
            notes=asked.notes,
        )


def fingerprints(
    question: Question,
    model: LanguageModel,
    pairs: PairSet,
    search: Search | None = None,
    stays: Sequence[Stay] | None = None,
) -> dict[str, str]:
    """Identifies everything that the settings of a job name. Counterfactual prefixes decide what a search with the
    values `interchange` finds. They decide some of the evidence for every search. `stays` is given if it was read
    already."""
    stays = stays_of(question, model) if stays is None else stays
    found = {
        "model_fingerprint": model.fingerprint(),
        "data_fingerprint": pairs.fingerprint(),
        "held_out": str(pairs.held_out) if question.test is None else None,
        "test_fingerprint": pairs.test_fingerprint(),
        "counterfactual_fingerprint": pairs.counterfactual_fingerprint(),
        "keep_fingerprint": _joint([stay.fingerprint() for stay in stays]),
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
    name, number = slug(phenomenon, steps, model), 1
    while True:
        path = Path("runs") / (name if number == 1 else f"{name}-{number}")
        if not path.exists() or (path.is_dir() and {file.name for file in path.iterdir()} <= {LOCK}):
            return path
        # The run may be about to be replaced, or whoever replaced it was killed.
        there = next((path / name for name in (RUN, REPLACED) if (path / name).is_file()), None)
        if there and not changes(serial.read(there, RunRecord).settings, serial.plain(settings)):
            return path
        number += 1


def machine(device: torch.device) -> str:
    """The name of the GPU, with "TF32" if it multiplies float32 matrices in that format; or the name of the CPU, with
    the numbers of cores and of torch threads."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device)) + ", TF32" * _uses_tf32()
    cores = os.cpu_count() or 1
    return f"{_cpu()}, {cores} core{'s' * (cores > 1)}, {torch.get_num_threads()} used"


def _uses_tf32() -> bool:
    """Whether products of float32 matrices keep 10 bits of the mantissa."""
    products = torch.backends.cuda.matmul
    # torch 2.9 has a new setting, and then refuses to read the old one if the new one was used.
    return bool(
        products.fp32_precision == "tf32" if hasattr(products, "fp32_precision") else products.allow_tf32
    )


def _cpu() -> str:
    with suppress(OSError):
        named = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.M)
        if named is not None:
            return named[1].strip()
    return platform.processor() or platform.machine()
