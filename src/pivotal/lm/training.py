"""Train a model on text and write its folder: the job behind `pivotal train-lm`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pivotal.errors import PivotalError
from pivotal.files import disk
from pivotal.lm.card import model_card
from pivotal.lm.corpus import identity
from pivotal.lm.encoding import count_words, encode, held_out_of, hold_out
from pivotal.lm.existing_models import (
    check_replaceable,
    is_remnant,
    make_room,
    may_be_written,
    remove_surplus,
)
from pivotal.lm.learner import SeedLearner
from pivotal.lm.loop import TrainingCourse
from pivotal.lm.perplexity import surprisals
from pivotal.lm.recipes import Settings
from pivotal.lm.snapshots import Snapshots, check_place, snapshot_tokens
from pivotal.lm.stream import Stream
from pivotal.lm.training_folder import TrainingFolder
from pivotal.lm.vocabulary import Vocabulary
from pivotal.models import device_named
from pivotal.models.recurrent.folder import check_name, save_folder
from pivotal.models.recurrent.lm import RecurrentLM
from pivotal.questions.question import check_seed
from pivotal.questions.words import EOS, UNK
from pivotal.records import serial
from pivotal.records.run import Progress
from pivotal.stopping import saying
from pivotal.watch import Silent, Watch

MOST_SEEDS = 1000
"""The most models that are trained together."""


@dataclass(frozen=True)
class Trained:
    """A trained model and its folder."""

    path: Path
    seed: int
    perplexity: float
    card: dict[str, Any]


def train(
    corpus: Sequence[str | Path],
    out: str | Path,
    settings: Settings | None = None,
    *,
    valid: str | Path | None = None,
    vocabulary: str | Path | None = None,
    seed: int = 0,
    seeds: int = 1,
    device: str | None = None,
    overwrite: bool = False,
    checkpoint_minutes: float = 5.0,
    snapshots: str | Sequence[int] = (),
    recipe: str = "",
    command: str = "",
    watch: Watch | None = None,
) -> list[Trained]:
    """Train a recurrent language model on text with one sentence per line, and write it to `out`.

    With several `seeds`, the models are written to `out`/seed-0, `out`/seed-1 and so on. The same call resumes a
    training that was stopped; on a CPU it ends with exactly the weights of an uninterrupted training. `overwrite`
    replaces the models in `out` once the new ones are complete. `snapshots` are numbers of tokens, such as
    `"10M,30M,1B"`: when a number has been read, the weights are saved to a folder in `out`.snapshots.
    """
    paths = [Path(path) for path in corpus]
    if not paths:
        raise PivotalError("Training needs text, but no corpus file was given. Give one with --corpus.")
    if not 1 <= seeds <= MOST_SEEDS:
        raise PivotalError(f"seeds must be 1 to {MOST_SEEDS:,}, but it is {seeds:,}.", "seeds")
    check_seed(seed)
    chosen = device_named(device)
    settings = resolved(settings or Settings(), chosen)
    out, watch = Path(out), watch or Silent()
    check_name(out)
    valid, vocabulary = (None if path is None else Path(path) for path in (valid, vocabulary))
    plan = {
        "settings": dataclasses.asdict(settings),
        "corpus": [identity(path) for path in paths],
        "valid": None if valid is None else identity(valid),
        "vocabulary": None if vocabulary is None else identity(vocabulary),
        "seed": seed,
        "seeds": seeds,
        "snapshots": list(snapshot_tokens(snapshots)) or None,
    }
    targets = {number: out if seeds == 1 else out / f"seed-{number}" for number in range(seed, seed + seeds)}
    workplace = TrainingFolder(out)
    _check_out(out, list(targets.values()), plan, workplace, overwrite)
    about = {"recipe": recipe or "custom", "command": command, **plan}
    check_place(out, plan, overwrite)
    try:
        workplace.open(plan, overwrite=overwrite)
        words, train_ids, valid_ids = _encoded(paths, valid, vocabulary, settings, workplace, watch)
        tokens = snapshot_tokens(snapshots)
        kept = Snapshots(tokens, out, list(targets.values()), words, about, overwrite)
        with torch.random.fork_rng([chosen] if chosen.type == "cuda" else []):
            course = _learn(settings, words, train_ids, valid_ids, list(targets), chosen, workplace, watch,
                            60 * checkpoint_minutes, kept)  # fmt: skip
        if overwrite:
            with disk(out):
                make_room(out, targets.values())
        trained = [
            _write(learner, target, words, course, about, overwrite)
            for learner, target in zip(course.learners, targets.values(), strict=True)
        ]
        if overwrite:
            with disk(out):
                remove_surplus(out, targets.values())
                kept.remove_surplus()
        workplace.remove()
        return trained
    except KeyboardInterrupt as stop:
        workplace.remove_if_new()
        raise saying(stop, workplace.farewell(command)) from None
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
        raise PivotalError(
            f"Half precision needs a GPU, but {precision} was asked for on the CPU. Use fp32, or --device cuda."
        )
    return dataclasses.replace(settings, precision=precision)


def _check_out(
    out: Path, targets: list[Path], plan: dict[str, Any], workplace: TrainingFolder, overwrite: bool
) -> None:
    """Raise PivotalError before anything is read or removed if `out` cannot be written."""
    if overwrite:
        check_replaceable(out)
        return
    others = [path for path in targets if not may_be_written(path, plan)]
    if out not in targets and out.exists():
        others += (
            [out]
            if not out.is_dir()
            else [path for path in out.iterdir() if path not in targets and not is_remnant(path)]
        )
    if others:
        raise PivotalError(
            f"Training writes a new folder, but {others[0]} exists already and is not from this training. "
            "Choose another with --out, or replace a trained model with --overwrite."
        )
    # If the training folder still exists, the training was killed before its end.
    if all((path / "card.json").is_file() for path in targets) and not workplace.path.is_dir():
        raise PivotalError(
            f"This training is finished: see {out}. To train again, use --overwrite or another --out."
        )


def _encoded(
    corpus: list[Path],
    valid: Path | None,
    vocabulary: Path | None,
    settings: Settings,
    workplace: TrainingFolder,
    watch: Watch,
) -> tuple[Vocabulary, np.ndarray, np.ndarray]:
    if (kept := workplace.encoded()) is not None:
        return kept

    def telling(phase: str) -> Any:
        return lambda tokens: watch.progress(Progress(phase, tokens, 0))

    if vocabulary is not None:
        words = Vocabulary.read(vocabulary)
    else:
        counts = count_words(corpus, telling("counting words"))
        words = Vocabulary.most_frequent(counts, settings.vocabulary_size)
    ids = encode(corpus, words, telling("encoding"))
    eos = words.ids[EOS]
    if valid is not None:
        held = encode([valid], words, telling("encoding"))
    else:
        ids, held = hold_out(ids, eos, settings.valid_share)
        watch.say(
            f"No validation text was given: one sentence in {held_out_of(settings.valid_share)} is held "
            f"out, {len(held):,} tokens in total."
        )
    if len(ids) < 2 * settings.batch:
        raise PivotalError(
            f"{settings.batch} columns of text need at least {2 * settings.batch} tokens, but the corpus has "
            f"{len(ids)}. Give more text, or lower --batch."
        )
    if len(held) < 2:
        raise PivotalError(f"Validation needs at least 2 tokens, but its text has {len(held)}.")
    unknown = float(np.mean(ids == words.ids[UNK]))
    watch.say(f"{len(ids)} tokens to train on, {len(words)} words, {unknown:.1%} of the tokens are {UNK}.")
    workplace.keep_encoded(words, ids, held)
    return words, ids, held


def _learn(
    settings: Settings,
    words: Vocabulary,
    train_ids: np.ndarray,
    valid_ids: np.ndarray,
    seeds: list[int],
    device: torch.device,
    workplace: TrainingFolder,
    watch: Watch,
    checkpoint_seconds: float,
    snapshots: Snapshots,
) -> TrainingCourse:
    # Saturated gates produce denormal numbers, which the CPU handles fifteen times slower than zero.
    torch.set_flush_denormal(True)
    stream = Stream.of(train_ids, words.ids[EOS], device)
    learners = [SeedLearner(settings, len(words), stream, seed, device) for seed in seeds]
    valid = torch.from_numpy(valid_ids).to(device)
    course = TrainingCourse(settings, learners, valid, workplace, watch, checkpoint_seconds, snapshots)
    course.run()
    return course


def _write(
    learner: SeedLearner,
    path: Path,
    words: Vocabulary,
    course: TrainingCourse,
    about: dict[str, Any],
    overwrite: bool,
) -> Trained:
    settings, place = course.settings, learner.seed - course.learners[0].seed
    weights = learner.weights()
    model = RecurrentLM(
        path.name, cell=settings.cell, words=words.words, weights=weights, device=learner.device
    )
    loss = float(surprisals(model, course.valid.cpu().numpy()).mean())
    perplexity = round(math.exp(min(loss, 700)), 4)
    validation = {"perplexity": perplexity, "by_epoch": [row["perplexity"][place] for row in course.history]}
    card = model_card(path.name, learner, course, words, about, validation)
    if course.taken:
        card["snapshots"] = [{**point, "perplexity": point["perplexity"][place]} for point in course.taken]
    with disk(path):
        save_folder(
            path,
            cell=settings.cell,
            words=words.words,
            weights=weights,
            card=serial.plain(card),
            replace=overwrite or may_be_written(path, card["training"]),
        )
    return Trained(path, learner.seed, perplexity, card)
