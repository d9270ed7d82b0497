"""The folders that a training writes: models, snapshots of them, their cards, and which folders they may replace."""

from __future__ import annotations

import platform
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.files import differences, disk
from pivotal.lm.learner import SeedLearner
from pivotal.models.recurrent.folder import WRITTEN, holds_a_model, is_empty, is_only_a_model, save_folder
from pivotal.records import serial

if TYPE_CHECKING:
    from pivotal.lm.loop import TrainingCourse

_UNITS = {"B": 10**9, "M": 10**6, "K": 10**3}


@dataclass(frozen=True)
class ModelFolders:
    """The folders of one training: `OUT` for one seed, or `OUT/seed-0` and so on for several. Snapshots have a folder
    per seed and number of tokens, such as `OUT.snapshots/seed-0-30M`.

    A training that was killed may take a snapshot again after it resumes. It then replaces the folder; on a CPU the
    weights are the same.
    """

    out: Path
    seeds: range
    plan: dict[str, Any]
    """What decides the weights. Models that were trained with the same plan may be replaced."""
    recipe: str
    command: str
    overwrite: bool

    def of(self, seed: int) -> Path:
        """The folder of a seed's model."""
        return self.out if len(self.seeds) == 1 else self.out / f"seed-{seed}"

    @property
    def models(self) -> list[Path]:
        return [self.of(seed) for seed in self.seeds]

    @property
    def snapshots(self) -> Path:
        return self.out.with_name(self.out.name + ".snapshots")

    @property
    def snapshot_tokens(self) -> Sequence[int]:
        return self.plan["snapshots"] or ()

    # -- before the training ------------------------------------------------------------------------------------

    def check_free(self) -> None:
        """Raise PivotalError if the models and snapshots cannot be written without removing something else."""
        if self.overwrite:
            self._check_replaceable()
        else:
            others = [path for path in self.models if not self._is_ours(path)]
            if self.out not in self.models:
                others += [path for path in _inside(self.out) if path not in self.models]
            if others:
                raise PivotalError(
                    f"Training writes a new folder, but {others[0]} exists already and is not from this training. "
                    "Choose another with --out, or replace a trained model with --overwrite."
                )
        replaceable = is_only_a_model if self.overwrite else self._is_ours
        others = [path for path in _inside(self.snapshots) if not replaceable(path)]
        if self.snapshot_tokens and others:
            raise PivotalError(
                f"Snapshots are written to {self.snapshots}, but {others[0].name} exists there and is not from this "
                "training. Choose another folder with --out, or replace the snapshots of another training with "
                "--overwrite."
            )

    def _check_replaceable(self) -> None:
        """The folder may hold a single model and several seeds at once, if a training that replaces one by the other
        was stopped."""
        own = WRITTEN if holds_a_model(self.out) else ()
        for path in _inside(self.out):
            if not _is_seed(path) and (path.name not in own or path.is_dir()):
                raise PivotalError(
                    f"{self.out} must hold only trained models, but it holds {path.name}. Choose another folder with "
                    "--out."
                )

    def _is_ours(self, path: Path) -> bool:
        """Whether the path is empty, or holds a model written by a training with the same plan."""
        if is_empty(path):
            return True
        if not (path / "card.json").is_file():
            return False
        card = serial.read(path / "card.json", dict)
        return not differences(card.get("training", {}), serial.plain(self.plan))

    # -- writing ------------------------------------------------------------------------------------------------

    def make_room(self) -> None:
        """Before the models are written, remove the seeds that a single model replaces: they are in its folder. The
        last checkpoint has the new model."""
        if self.overwrite and self.out in self.models:
            _remove(path for path in _inside(self.out) if _is_seed(path))

    def remove_surplus(self) -> None:
        """After all is written, remove the models and snapshots of a training that this one has replaced."""
        if not self.overwrite:
            return
        if self.out not in self.models:
            for name in WRITTEN:
                (self.out / name).unlink(missing_ok=True)
            _remove(path for path in _inside(self.out) if _is_seed(path) and path not in self.models)
        if self.snapshot_tokens:
            kept = {self._snapshot(seed, tokens) for seed in self.seeds for tokens in self.snapshot_tokens}
            _remove(path for path in _inside(self.snapshots) if path not in kept and is_only_a_model(path))

    def write_model(
        self, learner: SeedLearner, course: TrainingCourse, weights: dict[str, Tensor], perplexity: float
    ) -> dict[str, Any]:
        """Write the folder of a finished seed, and return its card."""
        place = self.seeds.index(learner.seed)
        by_epoch = [point["perplexity"][place] for point in course.history]
        card = self._card(
            self.of(learner.seed), learner, course, {"perplexity": perplexity, "by_epoch": by_epoch}
        )
        if course.taken:
            card["snapshots"] = [
                {**point, "perplexity": point["perplexity"][place]} for point in course.taken
            ]
        self._write(self.of(learner.seed), course, weights, card)
        return card

    def write_snapshots(self, course: TrainingCourse, point: dict[str, Any]) -> None:
        """Write a folder per seed. `point` has the requested number, the tokens read and the perplexities."""
        for place, learner in enumerate(course.learners):
            folder = self._snapshot(learner.seed, point["asked"])
            validation = {
                "perplexity": point["perplexity"][place],
                "precision": f"{course.settings.precision}, before the weights were rounded to int8",
            }
            card = self._card(folder, learner, course, validation)
            card["summary"] += f"; after {point['tokens']:,} tokens of its training"
            card["snapshot"] = {
                "asked": point["asked"],
                "share_of_training": round(min(course.share, 1.0), 4),
                "rate": course.rate(learner),
                "note": _NOTES[course.settings.schedule],
            }
            card["storage"] = "X = X.int8 * X.scale[:, None]; rows rounded to the nearest of 255 steps"
            self._write(folder, course, learner.weights(), card, int8=True)

    def _snapshot(self, seed: int, tokens: int) -> Path:
        return self.snapshots / f"{self.of(seed).name}-{short_number(tokens)}"

    def _write(
        self,
        folder: Path,
        course: TrainingCourse,
        weights: dict[str, Tensor],
        card: dict[str, Any],
        *,
        int8: bool = False,
    ) -> None:
        with disk(folder):
            save_folder(
                folder,
                cell=course.settings.cell,
                words=course.words.words,
                weights=weights,
                card=serial.plain(card),
                replace=self.overwrite or self._is_ours(folder),
                int8=int8,
            )

    def _card(
        self, folder: Path, learner: SeedLearner, course: TrainingCourse, validation: dict[str, Any]
    ) -> dict[str, Any]:
        """The content of card.json at this point of the training."""
        from pivotal import __version__

        settings, cuda = course.settings, learner.device.type == "cuda"
        return {
            "name": folder.name,
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


def _inside(folder: Path) -> list[Path]:
    """What a folder holds, except for what a training that was killed left behind; a file itself."""
    if not folder.is_dir():
        return [folder] if folder.exists() else []
    return [path for path in folder.iterdir() if not re.fullmatch(r"\..+\.partial", path.name)]


def _is_seed(path: Path) -> bool:
    return re.fullmatch(r"seed-\d+", path.name) is not None and is_only_a_model(path)


def _remove(folders: Iterator[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder)


# -- numbers of tokens ----------------------------------------------------------------------------------------------


def snapshot_tokens(numbers: str | Sequence[int]) -> tuple[int, ...]:
    """Parse numbers of tokens, such as `10M,30M,1.5B`, which must increase."""
    parts = numbers.split(",") if isinstance(numbers, str) and numbers else numbers
    matches = [re.fullmatch(r"\s*(\d+(?:\.\d+)?)([KMB]?)\s*", str(part).upper()) for part in parts]
    parsed = [float(match[1]) * _UNITS.get(match[2], 1) if match else 0.0 for match in matches]
    increasing = all(before < after for before, after in zip((0, *parsed), parsed, strict=False))
    if not increasing or not all(map(float.is_integer, parsed)):
        raise PivotalError(
            "snapshots must be increasing numbers of tokens separated by commas, such as 10M,30M,1B, but they are "
            f"{numbers!r}.",
            "snapshots",
        )
    return tuple(map(int, parsed))


def short_number(tokens: int) -> str:
    """For example 30M for 30,000,000. Numbers that are not round are written in full."""
    for letter, unit in _UNITS.items():
        if tokens and tokens % unit == 0:
            return f"{tokens // unit}{letter}"
    return str(tokens)
