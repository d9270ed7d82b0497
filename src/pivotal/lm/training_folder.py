"""The folder `DIR.training` beside the future model folder `DIR`: plan, encoded text, last checkpoint and a lock.

Models and snapshots are here until the training is finished. A training that was killed resumes from here.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import torch

from pivotal.errors import PivotalError, in_short
from pivotal.files import differences, disk, remove_partials, write_atomically
from pivotal.folders import check_no_other_files, locked
from pivotal.models.recurrent.folder import holds_a_model, is_empty, is_only_a_model
from pivotal.models.tensors import UNREADABLE, load_tensors
from pivotal.records import serial

PLAN, CHECKPOINT, TEXT = "plan.json", "checkpoint.pt", "text.pt"


class TrainingFolder:
    def __init__(self, out: Path) -> None:
        self.out = out
        self.path = out.with_name(out.name + ".training")
        self.models, self.snapshots = self.path / "models", self.path / "snapshots"
        self._places = {self.models: out, self.snapshots: out.with_name(out.name + ".snapshots")}
        self._lock = ExitStack()
        self._made = False

    def open(self, plan: Mapping[str, Any], *, overwrite: bool) -> None:
        """Lock the folder for this process, and keep its content if that belongs to a training with the same plan.

        `overwrite` clears the folder of another training. A training with the same plan is resumed even then, so that
        a command with `--overwrite` can be stopped and repeated.
        """
        wanted = serial.plain(plan)
        if self.path.is_dir() and not (self.path / PLAN).is_file():
            check_no_other_files(self.path, "training")  # before the lock is written
        self._lock.enter_context(locked(self.path, f"model {self.out}"))
        with disk(self.path):
            remove_partials(self.path)
        if (self.path / PLAN).is_file():
            differing = differences(serial.read(self.path / PLAN, dict), wanted)
            if not differing and ((self.path / CHECKPOINT).is_file() or not overwrite):
                return
            if not overwrite:
                raise PivotalError(
                    f"{self.path} holds another training: {'; '.join(differing)}. Use another --out, or --overwrite."
                )
            self._clear()
        self._made = True
        serial.write(self.path / PLAN, wanted)

    def check_free(self, plan: Mapping[str, Any], *, overwrite: bool) -> None:
        """Raise PivotalError unless the places of the models and snapshots are free. Models that a training with the
        same plan wrote may be replaced, and with `overwrite` all models."""
        for place in list(self._places.values())[: 2 if plan["snapshots"] else 1]:
            if is_empty(place):
                continue
            held = list(place.iterdir()) if place.is_dir() and not holds_a_model(place) else [place]
            if others := [path for path in held if not is_only_a_model(path)]:
                raise PivotalError(
                    f"{others[0]} is not a trained model, or holds other files. Choose another folder with --out."
                )
            if not overwrite and not all(_is_from(plan, path) for path in held):
                raise PivotalError(
                    f"{place} exists, and is not from this training. Name another, or --overwrite it."
                )

    def publish(self) -> None:
        """Move the finished models and snapshots to their places, and remove what else is here."""
        with disk(self.out):
            for made, place in self._places.items():
                if made.is_dir():
                    if place.exists():
                        shutil.rmtree(place)
                    os.rename(made, place)
        self.remove()

    def close(self) -> None:
        """Release the lock, and remove the folder if nothing is left in it."""
        self._lock.close()
        with suppress(OSError):
            self.path.rmdir()

    def remove(self) -> None:
        self._clear()
        self.close()

    def remove_if_new(self) -> None:
        """After an error: remove what this process created, unless it has reached a checkpoint."""
        if self._made and not (self.path / CHECKPOINT).is_file():
            self.remove()

    def farewell(self, command: str) -> str:
        """What is left of a training that was stopped, and how to resume it."""
        again = f": {command.replace(' --overwrite', '')}" if command else " the same settings."
        if (self.path / CHECKPOINT).is_file():
            return f"Stopped; the checkpoint is saved in {self.path}. Resume with{again}"
        return f"Stopped before there was a checkpoint. Begin again with{again}"

    def _clear(self) -> None:
        """Remove the files of a training. The plan is last, because it marks the folder as ours."""
        if (self.path / PLAN).is_file():
            for folder in self._places:
                shutil.rmtree(folder, ignore_errors=True)
            for name in (CHECKPOINT, TEXT, PLAN):
                (self.path / name).unlink(missing_ok=True)

    # -- files --------------------------------------------------------------------------------------------------

    def save(self, name: str, content: dict[str, Any]) -> None:
        """Replace a file, the checkpoint or the encoded text. If the disk is full, the previous one remains."""
        with disk(self.path / name):
            write_atomically(self.path / name, lambda partial: torch.save(content, partial))

    def load(self, name: str) -> dict[str, Any] | None:
        path = self.path / name
        if not path.is_file():
            return None
        try:
            return dict(load_tensors(path))
        except UNREADABLE as error:
            raise PivotalError(f"{path} is damaged ({in_short(error)}). Remove {self.path}.") from None


def _is_from(plan: Mapping[str, Any], folder: Path) -> bool:
    """Whether a training with this plan wrote a model."""
    if not (folder / "card.json").is_file():
        return False
    card = serial.read(folder / "card.json", dict)
    return not differences(card.get("training", {}), serial.plain(plan))
