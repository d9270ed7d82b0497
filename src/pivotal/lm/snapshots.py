"""Snapshots: the weights of a model in training, kept as model folders at chosen numbers of tokens read."""

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
from pivotal.lm.replace import may_be_written
from pivotal.lm.vocabulary import Vocabulary
from pivotal.models.recurrent.folder import is_only_a_model, save_folder
from pivotal.records import serial

if TYPE_CHECKING:
    from pivotal.lm.course import TrainingCourse

_UNITS = {"B": 10**9, "M": 10**6, "K": 10**3}


def snapshot_tokens(asked: str | Sequence[int]) -> tuple[int, ...]:
    """The numbers of tokens in a text such as `10M,30M,1.5B`, or in a list; they must increase."""
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
    """30M for 30,000,000; a number that is not round is written out."""
    for letter, unit in _UNITS.items():
        if tokens and tokens % unit == 0:
            return f"{tokens // unit}{letter}"
    return str(tokens)


@dataclass
class Snapshots:
    """Those of one training. They lie in `OUT.snapshots`, in a folder per seed and number of tokens.

    The folders are called after the model and the number: `OUT.snapshots/seed-0-30M`. A training that was killed may
    take a snapshot again after it resumes. The folder is then replaced, by the same weights on a CPU.
    """

    tokens: tuple[int, ...]
    out: Path
    targets: Sequence[Path]
    about: dict[str, Any]
    overwrite: bool
    words: Vocabulary | None = None

    @property
    def path(self) -> Path:
        return self.out.with_name(self.out.name + ".snapshots")

    def folder(self, target: Path, tokens: int) -> Path:
        return self.path / f"{target.name}-{short_number(tokens)}"

    def check_place(self, plan: dict[str, Any]) -> None:
        """Refuses a folder that holds anything but snapshots of this training or, to overwrite, models."""
        if not self.tokens or not self.path.exists():
            return
        own = is_only_a_model if self.overwrite else partial(may_be_written, plan=plan)
        there = self.path.iterdir() if self.path.is_dir() else (self.path,)
        others = [path for path in there if not _is_remnant(path) and not own(path)]
        if others:
            raise PivotalError(
                f"Snapshots go to {self.path}, but {others[0].name} is there already and is something else. "
                "Name another folder with --out, or replace the snapshots of another training with --overwrite."
            )

    def check_reached(self, tokens: int) -> None:
        """Refuses snapshots beyond the end of the training."""
        if self.tokens and self.tokens[-1] > tokens:
            raise PivotalError(
                f"The training reads {tokens:,} tokens in all, but a snapshot is asked for at "
                f"{self.tokens[-1]:,}. Leave it out, or raise --epochs.",
                "snapshots",
            )

    def due(self, read: int, taken: int) -> list[int]:
        """Which snapshots the tokens read so far have reached, without the first `taken` ones."""
        return [tokens for tokens in self.tokens[taken:] if tokens <= read]

    def write(self, course: TrainingCourse, point: dict[str, Any]) -> None:
        """A folder per seed. `point` has the number asked for, the tokens read and the perplexities."""
        assert self.words is not None
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
        """After an overwriting training: the snapshots of the training before it go."""
        kept = {self.folder(target, tokens) for target in self.targets for tokens in self.tokens}
        for path in self.path.iterdir() if self.tokens and self.path.is_dir() else ():
            if path not in kept and is_only_a_model(path):
                shutil.rmtree(path)


def _note(schedule: str) -> str:
    if schedule == "cosine":
        return (
            "taken in the middle of a cosine schedule that spans the whole training: the learning rate had not "
            "come down, so a model trained to its end on as many tokens has a lower perplexity"
        )
    return "the weights in the middle of training, whether or not an earlier epoch had a lower perplexity"


def _is_remnant(path: Path) -> bool:
    """Left by a training that was killed while it wrote a snapshot. The next one with that name removes it."""
    return re.fullmatch(r"\..+\.(partial|former)", path.name) is not None
