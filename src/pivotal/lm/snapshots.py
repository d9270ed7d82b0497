"""Snapshots: model folders with the weights after chosen numbers of tokens."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pivotal.errors import PivotalError
from pivotal.files import disk
from pivotal.lm.card import model_card
from pivotal.lm.existing_models import may_be_written
from pivotal.lm.vocabulary import Vocabulary
from pivotal.models.recurrent.folder import is_only_a_model, save_folder
from pivotal.records import serial

if TYPE_CHECKING:
    from pivotal.lm.loop import TrainingCourse

_UNITS = {"B": 10**9, "M": 10**6, "K": 10**3}


def snapshot_tokens(asked: str | Sequence[int]) -> tuple[int, ...]:
    """Parse numbers of tokens, such as `10M,30M,1.5B`, which must increase."""
    parts = asked.split(",") if isinstance(asked, str) and asked else asked
    numbers = tuple(_number(str(part).strip(), asked) for part in parts)
    for before, after in zip((0, *numbers), numbers, strict=False):
        if after <= before:
            raise PivotalError(
                f"snapshots must be increasing numbers of tokens above 0, but {short_number(after)} comes "
                f"after {short_number(before)}. Give them in order, such as 10M,30M,1B.",
                "snapshots",
            )
    return numbers


def _number(part: str, asked: str | Sequence[int]) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMB]?)", part.upper())
    number = float(found[1]) * _UNITS.get(found[2], 1) if found else 0.5
    if not number.is_integer():
        raise PivotalError(
            f"snapshots takes numbers of tokens separated by commas, such as 10M,30M,1B, but {asked!r} "
            f"has {part!r}.",
            "snapshots",
        )
    return int(number)


def short_number(tokens: int) -> str:
    """For example 30M for 30,000,000. Numbers that are not round are written in full."""
    for letter, unit in _UNITS.items():
        if tokens and tokens % unit == 0:
            return f"{tokens // unit}{letter}"
    return str(tokens)


def check_place(out: Path, plan: dict[str, Any], overwrite: bool) -> None:
    """Raise PivotalError if `OUT.snapshots` holds anything but snapshots of this training or, to overwrite, models."""
    folder = _folder_of(out)
    if not plan["snapshots"] or not folder.exists():
        return
    own = is_only_a_model if overwrite else partial(may_be_written, plan=plan)
    there = folder.iterdir() if folder.is_dir() else (folder,)
    others = [path for path in there if not _is_remnant(path) and not own(path)]
    if others:
        raise PivotalError(
            f"Snapshots are written to {folder}, but {others[0].name} exists there and is not from this training. "
            "Choose another folder with --out, or replace the snapshots of another training with --overwrite."
        )


@dataclass(frozen=True)
class Snapshots:
    """The snapshots of one training, in a folder per seed and number of tokens, such as `OUT.snapshots/seed-0-30M`.

    A training that was killed may take a snapshot again after it resumes. It then replaces the folder; on a CPU the
    weights are the same.
    """

    tokens: tuple[int, ...]
    out: Path
    targets: Sequence[Path]
    """The folder of each seed's model."""
    words: Vocabulary
    about: dict[str, Any]
    """For the cards: recipe, command and plan."""
    overwrite: bool

    def folder(self, target: Path, tokens: int) -> Path:
        return _folder_of(self.out) / f"{target.name}-{short_number(tokens)}"

    def check_reached(self, tokens: int) -> None:
        """Raise PivotalError if a snapshot is beyond the end of the training."""
        if self.tokens and self.tokens[-1] > tokens:
            raise PivotalError(
                f"The training reads {tokens:,} tokens in total, but a snapshot is requested at "
                f"{self.tokens[-1]:,}. Remove it, or raise --epochs.",
                "snapshots",
            )

    def due(self, read: int, taken: int) -> list[int]:
        """The snapshots to take after `read` tokens, if the first `taken` ones have been taken."""
        return [tokens for tokens in self.tokens[taken:] if tokens <= read]

    def write(self, course: TrainingCourse, point: dict[str, Any]) -> None:
        """Write a folder per seed. `point` has the requested number, the tokens read and the perplexities."""
        for place, (learner, target) in enumerate(zip(course.learners, self.targets, strict=True)):
            folder = self.folder(target, point["asked"])
            validation = {
                "perplexity": point["perplexity"][place],
                "precision": f"{course.settings.precision}, before the weights were rounded to int8",
            }
            card = model_card(folder.name, learner, course, self.words, self.about, validation)
            card["summary"] += f"; after {point['tokens']:,} tokens of its training"
            card["snapshot"] = {
                "asked": point["asked"],
                "share_of_training": round(min(course.share, 1.0), 4),
                "rate": course.rate(learner),
                "note": _note(course.settings.schedule),
            }
            card["storage"] = "X = X.int8 * X.scale[:, None]; rows rounded to the nearest of 255 steps"
            with disk(folder):
                save_folder(
                    folder,
                    cell=course.settings.cell,
                    words=self.words.words,
                    weights=learner.weights(),
                    card=serial.plain(card),
                    replace=self.overwrite or may_be_written(folder, card["training"]),
                    int8=True,
                )

    def remove_surplus(self) -> None:
        """Remove the snapshots of a training that this one has replaced."""
        kept = {self.folder(target, tokens) for target in self.targets for tokens in self.tokens}
        folder = _folder_of(self.out)
        for path in folder.iterdir() if self.tokens and folder.is_dir() else ():
            if path not in kept and is_only_a_model(path):
                shutil.rmtree(path)


def _note(schedule: str) -> str:
    if schedule == "cosine":
        return (
            "taken in the middle of a cosine schedule over the whole training, before the learning rate was annealed: "
            "a model whose whole training has this many tokens reaches a lower perplexity"
        )
    return "taken in the middle of training, even if an earlier epoch had a lower perplexity"


def _folder_of(out: Path) -> Path:
    return out.with_name(out.name + ".snapshots")


def _is_remnant(path: Path) -> bool:
    """Whether a training that was killed left this behind. The next snapshot with that name removes it."""
    return re.fullmatch(r"\..+\.(partial|former)", path.name) is not None
