"""What stands where a model is to come: another one, or the models of several seeds. Nothing else is ever removed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection
from pathlib import Path

from pivotal.errors import PivotalError
from pivotal.files import differences
from pivotal.models.recurrent.folder import WRITTEN, holds_a_model, is_empty, is_only_a_model
from pivotal.records import serial


def check_replaceable(out: Path) -> None:
    """Refuses a folder that holds anything besides models of ours. A stopped change from one model to several seeds, or
    back, leaves both."""
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
            f"{out} holds something else than trained models: {others[0].name}. Name another folder with --out."
        )


def may_be_written(path: Path, plan: dict) -> bool:
    """Nothing is there, or a model that this very training has written."""
    if is_empty(path):
        return True
    if not (path / "card.json").is_file():
        return False
    return not differences(serial.read(path / "card.json", dict).get("training", {}), serial.plain(plan))


def make_room(out: Path, targets: Collection[Path]) -> None:
    """Where one model replaces several seeds: they stand in its folder. The new one is in the last checkpoint."""
    if out in targets:
        _remove_seeds(out, ())


def remove_surplus(out: Path, targets: Collection[Path]) -> None:
    """Where several seeds replaced one model, or more of them: once all are there, the others go."""
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
    """Left beside a seed's folder by a training that was killed while it wrote that."""
    return re.fullmatch(r"\.seed-\d+\.(partial|former)", path.name) is not None
