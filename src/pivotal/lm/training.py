"""Train a model on text and write its folder: the job behind `pivotal train-lm`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pivotal.errors import PivotalError
from pivotal.files import identity
from pivotal.lm.assess import mean_surprisal
from pivotal.lm.corpus import CorpusVocabulary, count_words, encode, held_out_of, hold_out
from pivotal.lm.learner import SeedLearner, Stream, perplexity_at
from pivotal.lm.loop import TrainingCourse
from pivotal.lm.model_folders import ModelFolders, snapshot_tokens
from pivotal.lm.recipes import Settings
from pivotal.lm.training_folder import TEXT, TrainingFolder
from pivotal.models import device_named
from pivotal.models.recurrent.folder import check_name, is_empty
from pivotal.models.recurrent.lm import RecurrentLM
from pivotal.questions.question import check_seed
from pivotal.questions.words import EOS, UNK
from pivotal.records.run import Progress
from pivotal.stopping import saying
from pivotal.watch import Silent, Watch

MOST_SEEDS = 1000
"""The most models that are trained together."""


@dataclass(frozen=True)
class TrainingJob:
    """What to train, on which text, and where to write it."""

    corpus: Sequence[str | Path]
    """Text with one sentence per line, plain or compressed."""
    out: str | Path
    """The model folder. Several seeds are written to `out`/seed-0, `out`/seed-1 and so on."""
    settings: Settings = field(default_factory=Settings)
    valid: str | Path | None = None
    """Validation text. Without one, some sentences of the corpus are held out."""
    vocabulary: str | Path | None = None
    """The words, one per line. Without a file, they are the most frequent words of the corpus."""
    seed: int = 0
    seeds: int = 1
    device: str | None = None
    snapshots: str | Sequence[int] = ()
    """Numbers of tokens, such as `"10M,30M,1B"`: when a number has been read, the weights are saved to a folder in
    `out`.snapshots."""
    overwrite: bool = False
    """Replace the models in `out` once the new ones are complete."""
    checkpoint_minutes: float = 5.0
    recipe: str = "custom"
    command: str = ""
    """The name of the recipe and the command, for the cards."""

    def __post_init__(self) -> None:
        if not self.corpus:
            raise PivotalError("Training needs text, but no corpus file was given. Give one with --corpus.")
        if not 1 <= self.seeds <= MOST_SEEDS:
            raise PivotalError(f"seeds must be 1 to {MOST_SEEDS:,}, but it is {self.seeds:,}.", "seeds")
        check_seed(self.seed)
        check_name(Path(self.out))

    def plan(self) -> dict[str, Any]:
        """What decides the weights: a training resumes only from a checkpoint with the same plan."""

        def of(path: str | Path | None) -> dict[str, Any] | None:
            return None if path is None else identity(Path(path))

        return {
            "settings": dataclasses.asdict(self.settings),
            "corpus": [of(path) for path in self.corpus],
            "valid": of(self.valid),
            "vocabulary": of(self.vocabulary),
            "seed": self.seed,
            "seeds": self.seeds,
            "snapshots": list(snapshot_tokens(self.snapshots)) or None,
        }


@dataclass(frozen=True)
class Trained:
    """A trained model and its folder."""

    path: Path
    seed: int
    perplexity: float
    card: dict[str, Any]


def train(job: TrainingJob, watch: Watch | None = None) -> list[Trained]:
    """Train recurrent language models and write their folders.

    The same job resumes a training that was stopped; on a CPU it ends with exactly the weights of an uninterrupted
    training.
    """
    watch, device = watch or Silent(), device_named(job.device)
    job = dataclasses.replace(job, settings=resolved(job.settings, device))
    plan, workplace = job.plan(), TrainingFolder(Path(job.out))
    workplace.check_free(plan, overwrite=job.overwrite)
    # If the training folder still exists, the training was killed before its end.
    if not is_empty(workplace.out) and not job.overwrite and not workplace.path.is_dir():
        raise PivotalError(f"This training is finished: see {job.out}. --overwrite trains again.")
    seeds = range(job.seed, job.seed + job.seeds)
    folders = ModelFolders(workplace, seeds, plan, job.recipe, job.command)
    try:
        workplace.open(plan, overwrite=job.overwrite)
        text = workplace.load(TEXT)
        if text is None:
            text = _encoded(job, watch)
            workplace.save(TEXT, text)
        words = CorpusVocabulary(tuple(text["words"]))
        # Saturated gates produce denormal numbers, which the CPU handles fifteen times slower than zero.
        torch.set_flush_denormal(True)
        stream = Stream.of(text["train"].numpy(), words.ids[EOS], device)
        learners = [SeedLearner(job.settings, len(words), stream, seed, device) for seed in seeds]
        valid = text["valid"].to(device)
        course = TrainingCourse(
            job.settings, words, learners, valid, workplace, folders, watch, 60 * job.checkpoint_minutes
        )
        course.run()
        trained = [_written(learner, course, folders) for learner in learners]
        workplace.check_free(plan, overwrite=job.overwrite)  # something may have appeared in the meantime
        workplace.publish()
        return trained
    except KeyboardInterrupt as stop:
        workplace.remove_if_new()
        raise saying(stop, workplace.farewell(job.command)) from None
    except BaseException:
        workplace.remove_if_new()
        raise
    finally:
        workplace.close()


def resolved(settings: Settings, device: torch.device) -> Settings:
    """The settings with `auto` replaced by the precision for this device."""
    precision = settings.precision
    if precision == "auto":
        precision = "fp16" if device.type == "cuda" else "fp32"
    if precision != "fp32" and device.type == "cpu":
        raise PivotalError(f"{precision} needs a GPU, but the device is the CPU. Use fp32, or --device cuda.")
    return dataclasses.replace(settings, precision=precision)


def _encoded(job: TrainingJob, watch: Watch) -> dict[str, Any]:
    """The vocabulary, and the ids of the training and the validation text."""
    corpus, settings = [Path(path) for path in job.corpus], job.settings

    def report(phase: str) -> Callable[[int], None]:
        return lambda tokens: watch.progress(Progress(phase, tokens, 0))

    if job.vocabulary is not None:
        words = CorpusVocabulary.read(Path(job.vocabulary))
    else:
        counts = count_words(corpus, report("counting words"))
        words = CorpusVocabulary.most_frequent(counts, settings.vocabulary_size)
    ids = encode(corpus, words, report("encoding"))
    if job.valid is not None:
        held = encode([Path(job.valid)], words, report("encoding"))
    else:
        ids, held = hold_out(ids, words.ids[EOS], settings.valid_share)
        watch.say(
            f"No validation text was given: one sentence in {held_out_of(settings.valid_share)} is held "
            f"out, {len(held):,} tokens in total."
        )
    if len(ids) < 2 * settings.batch:
        raise PivotalError(
            f"A batch of {settings.batch} needs {2 * settings.batch} tokens, not {len(ids)}. Add text or lower --batch."
        )
    if len(held) < 2:
        raise PivotalError(f"Validation needs at least 2 tokens, but its text has {len(held)}.")
    unknown = float(np.mean(ids == words.ids[UNK]))
    watch.say(f"{len(ids)} tokens to train on, {len(words)} words, {unknown:.1%} of the tokens are {UNK}.")
    return {"words": list(words.words), "train": torch.from_numpy(ids), "valid": torch.from_numpy(held)}


def _written(learner: SeedLearner, course: TrainingCourse, folders: ModelFolders) -> Trained:
    path, weights = folders.of(learner.seed), learner.weights()
    model = RecurrentLM(
        path.name, cell=course.settings.cell, words=course.words.words, weights=weights, device=learner.device
    )
    perplexity = round(perplexity_at(mean_surprisal(model, course.valid.cpu().numpy())), 4)
    card = folders.write_model(learner, course, weights, perplexity)
    return Trained(path, learner.seed, perplexity, card)
