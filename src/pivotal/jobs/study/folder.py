"""The folder of a study: its recipe, its rows, and a run folder per batch. Only one process at a time uses it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

from pivotal.errors import PivotalError
from pivotal.files import LOCK, disk, is_partial, locked, remove_partials, write_text
from pivotal.jobs.study.recipe import Recipe
from pivotal.records import serial
from pivotal.records.study import StudyRecord

STUDY, RECIPE = "study.json", "recipe.yaml"


def default_folder(recipe: Recipe) -> Path:
    return Path("runs") / ("study-" + (re.sub(r"[^\w.]+", "-", recipe.name).strip("-.") or "unnamed"))


def check_folder(path: Path, recipe: Recipe) -> None:
    """PivotalError if the folder holds another study, or anything else."""
    if not path.exists():
        return
    if not path.is_dir():
        raise PivotalError(f"A study needs a folder, but {path} is a file. Name another with --out.")
    if (path / STUDY).is_file():
        there = serial.read(path / STUDY, StudyRecord, cure="Name another folder with --out.")
        if there.name != recipe.name:
            raise PivotalError(
                f"{path} holds the study '{there.name}', but the recipe is of '{recipe.name}'. "
                "Name another folder with --out."
            )
    elif foreign := sorted(p.name for p in path.iterdir() if p.name != LOCK and not is_partial(p)):
        few = ", ".join(foreign[:3]) + ("…" if len(foreign) > 3 else "")
        raise PivotalError(
            f"A study needs a folder of its own, but {path} holds other files ({few}). Nothing was changed; "
            "name another folder with --out."
        )


@contextmanager
def opened(path: Path, recipe: Recipe, command: str) -> Iterator[None]:
    """Hold the lock of the folder within the block, and store the current recipe there."""
    with locked(path, "study"):
        check_folder(path, recipe)
        with disk(path):
            remove_partials(path)
        if not (path / STUDY).is_file():
            started = datetime.now(timezone.utc).isoformat(timespec="seconds")
            serial.write(path / STUDY, StudyRecord(name=recipe.name, command=command, started=started))
        write_text(path / RECIPE, recipe.text)
        yield
