"""Replace existing models at the place of a new one. Nothing but models is ever removed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

from pivotal.errors import PivotalError
from pivotal.files import differences
from pivotal.models.recurrent.folder import WRITTEN, holds_a_model, is_empty, is_only_a_model
from pivotal.records import serial


def check_replaceable(out: Path) -> None:
    """Raise PivotalError if the folder holds anything but models. It may hold a single model and several seeds at once,
    if a training that replaces one by the other was stopped."""
    if is_empty(out):
        return
    own = WRITTEN if holds_a_model(out) else ()
    others = [
        path
        for path in (out.iterdir() if out.is_dir() else (out,))
        if not is_remnant(path)
        and not (_is_seed(path) and is_only_a_model(path))
        and (path.name not in own or path.is_dir())
    ]
    if others:
        raise PivotalError(
            f"{out} must hold only trained models, but it holds {others[0].name}. Choose another folder with --out."
        )


def may_be_written(path: Path, plan: dict[str, Any]) -> bool:
    """Whether the path is empty, or holds a model written by a training with the same plan."""
    if is_empty(path):
        return True
    if not (path / "card.json").is_file():
        return False
    card = serial.read(path / "card.json", dict)
    return not differences(card.get("training", {}), serial.plain(plan))


def make_room(out: Path, targets: Collection[Path]) -> None:
    """Remove the seeds that a single model replaces: they are in its folder. The last checkpoint has the new model."""
    if out in targets:
        _remove_seeds(out, ())


def remove_surplus(out: Path, targets: Collection[Path]) -> None:
    """After all seeds are written, remove the single model or the additional seeds that they replace."""
    if out not in targets:
        for name in WRITTEN:
            (out / name).unlink(missing_ok=True)
        _remove_seeds(out, targets)


def _remove_seeds(out: Path, kept: Collection[Path]) -> None:
    for path in out.iterdir() if out.is_dir() else ():
        if _is_seed(path) and path not in kept and is_only_a_model(path):
            shutil.rmtree(path)


def _is_seed(path: Path) -> bool:
    return re.fullmatch(r"seed-\d+", path.name) is not None


def is_remnant(path: Path) -> bool:
    """Whether a training that was killed while it wrote a seed left this behind."""
    return re.fullmatch(r"\.seed-\d+\.(partial|former)", path.name) is not None
