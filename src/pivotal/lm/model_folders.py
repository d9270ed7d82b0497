"""The models and snapshots that a training writes, and their cards."""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.lm.learner import SeedLearner
from pivotal.lm.training_folder import TrainingFolder
from pivotal.models.recurrent.folder import save_folder
from pivotal.records import serial

if TYPE_CHECKING:
    from pivotal.lm.loop import TrainingCourse

_UNITS = {"B": 10**9, "M": 10**6, "K": 10**3}


@dataclass(frozen=True)
class ModelFolders:
    """The folders of one training: `OUT` for one seed, or `OUT/seed-0` and so on for several. Snapshots have a folder
    per seed and number of tokens, such as `OUT.snapshots/seed-0-30M`. Until the end, all of them are in the training
    folder."""

    workplace: TrainingFolder
    seeds: range
    plan: dict[str, Any]
    """What decides the weights."""
    recipe: str
    command: str

    def of(self, seed: int, inside: Path | None = None) -> Path:
        """The folder of a seed's model, in the end or `inside` the training folder."""
        out = inside or self.workplace.out
        return out if len(self.seeds) == 1 else out / f"seed-{seed}"

    @property
    def snapshot_tokens(self) -> Sequence[int]:
        return self.plan["snapshots"] or ()

    def write_model(
        self, learner: SeedLearner, course: TrainingCourse, weights: dict[str, Tensor], perplexity: float
    ) -> dict[str, Any]:
        """Write the folder of a finished seed, and return its card."""
        place = self.seeds.index(learner.seed)
        by_epoch = [point["perplexity"][place] for point in course.history]
        validation = {"perplexity": perplexity, "by_epoch": by_epoch}
        card = self._card(self.of(learner.seed).name, learner, course, validation)
        if course.snapshots:
            card["snapshots"] = [
                {**point, "perplexity": point["perplexity"][place]} for point in course.snapshots
            ]
        self._write(self.of(learner.seed, self.workplace.models), course, weights, card)
        return card

    def write_snapshots(self, course: TrainingCourse, point: dict[str, Any]) -> None:
        """Write a folder per seed. `point` has the requested number, the tokens read and the perplexities."""
        for place, learner in enumerate(course.learners):
            name = f"{self.of(learner.seed).name}-{short_number(point['asked'])}"
            validation = {
                "perplexity": point["perplexity"][place],
                "precision": f"{course.settings.precision}, before the weights were rounded to int8",
            }
            card = self._card(name, learner, course, validation)
            card["summary"] += f"; after {point['tokens']:,} tokens of its training"
            card["snapshot"] = {
                "asked": point["asked"],
                "share_of_training": round(course.share, 4),
                "rate": course.rate(learner),
                "note": _NOTES[course.settings.schedule],
            }
            card["storage"] = "X = X.int8 * X.scale[:, None]; rows rounded to the nearest of 255 steps"
            self._write(self.workplace.snapshots / name, course, learner.weights(), card, int8=True)

    def _write(
        self, folder: Path, course: TrainingCourse, weights: dict[str, Tensor], card: Any, int8: bool = False
    ) -> None:
        """Write a folder. A training that was killed may write it again."""
        cell, words, card = course.settings.cell, course.words.words, serial.plain(card)
        save_folder(folder, cell=cell, words=words, weights=weights, card=card, replace=True, int8=int8)

    def _card(
        self, name: str, learner: SeedLearner, course: TrainingCourse, validation: dict[str, Any]
    ) -> dict[str, Any]:
        """The content of card.json at this point of the training."""
        from pivotal import __version__

        settings, cuda = course.settings, learner.device.type == "cuda"
        return {
            "name": name,
            "summary": f"{settings.cell.upper()} of {settings.layers} x {settings.hidden} units, trained on "
            f"{', '.join(file['file'] for file in self.plan['corpus'][:3])}; {len(course.words):,} words",
            "recipe": self.recipe,
            "command": self.command,
            "seed": learner.seed,
            "validation": {
                "tokens": len(course.valid),
                "state": "carried from sentence to sentence; every <eos> is predicted",
                **validation,
            },
            "tokens": {"corpus": learner.tokens, "read": course.tokens},
            "updates": course.step,
            "seconds": round(course.seconds, 1),
            "tokens_per_second": round(course.speed),
            "device": torch.cuda.get_device_name(learner.device) if cuda else "cpu",
            "versions": {
                "pivotal": __version__,
                "torch": torch.__version__,
                "python": platform.python_version(),
            },
            "training": self.plan,
        }


_NOTES = {
    "cosine": "taken in the middle of a cosine schedule over the whole training, before the learning rate was "
    "annealed: a model whose whole training has this many tokens reaches a lower perplexity",
    "plateau": "taken in the middle of training, even if an earlier epoch had a lower perplexity",
}


# -- numbers of tokens ----------------------------------------------------------------------------------------------


def snapshot_tokens(numbers: str | Sequence[int]) -> tuple[int, ...]:
    """Parse numbers of tokens, such as `10M,30M,1.5B`, which must increase."""
    parts = numbers.split(",") if isinstance(numbers, str) and numbers else numbers
    matches = [re.fullmatch(r"\s*(\d+(?:\.\d+)?)([KMB]?)\s*", str(part).upper()) for part in parts]
    parsed = [float(match[1]) * _UNITS.get(match[2], 1) if match else 0.0 for match in matches]
    increasing = all(before < after for before, after in zip((0, *parsed), parsed, strict=False))
    if not increasing or not all(map(float.is_integer, parsed)):
        raise PivotalError(
            f"snapshots are increasing numbers, e.g. 10M,30M,1B, not {numbers!r}.", "snapshots"
        )
    return tuple(map(int, parsed))


def short_number(tokens: int) -> str:
    """For example 30M for 30,000,000. Numbers that are not round are written in full."""
    for letter, unit in _UNITS.items():
        if tokens and tokens % unit == 0:
            return f"{tokens // unit}{letter}"
    return str(tokens)
