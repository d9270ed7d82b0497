"""Interventions in the formats of other libraries. One file in this folder adds a target."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from pivotal.errors import PivotalError
from pivotal.exports.base import ExportNotes, Portable, SiteEdit, Target
from pivotal.exports.templates import about, render
from pivotal.files import disk, inside, write_text
from pivotal.records import serial
from pivotal.records.intervention import EXPORT, ExportRecord
from pivotal.registry import Registry

_LISTED = 40
"""The most units in the table of a README."""

TARGETS: Registry[Target] = Registry("exports", __name__, Target)  # type: ignore[type-abstract]

__all__ = ["TARGETS", "ExportNotes", "Portable", "SiteEdit", "Target", "check_free", "export", "write_files"]


def export(portable: Portable, to: str, folder: Path, *, overwrite: bool = False) -> ExportRecord:
    """Write an intervention to a folder in the format of the target `to`, with a README that says how to use it.

    Everything is written beside the folder first, so that a failed export leaves the folder as it was.
    """
    target = TARGETS.get(to)()
    check_free(folder, overwrite=overwrite)
    target.check_steps(portable.intervention.steps)
    with disk(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".partial-") as partial:
            made = Path(partial) / "export"
            made.mkdir()
            record = write_files(portable, target, made)
            _put(made, folder)
    return record


def write_files(portable: Portable, target: Target, folder: Path) -> ExportRecord:
    """Write the files of a target into an empty folder, with README.md and export.json."""
    notes = target.write(portable, folder)
    i = portable.intervention
    text = render(
        "README.md",
        target=target,
        use=notes.use,
        approximate=notes.approximate,
        priming=portable.priming,
        dtype=str(portable.model.network.dtype)[6:],
        rows=list(zip(i.units, zip(*i.shown_values.values(), strict=True), strict=True)),
        listed=_LISTED,
        heads=any(unit.size > 1 for unit in i.units),
        **about(i),
    )
    write_text(folder / "README.md", text + "\n")
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    record = ExportRecord(
        target=target.name,
        model=i.model,
        model_fingerprint=i.model_fingerprint,
        phenomenon=i.phenomenon,
        steps=i.steps,
        directions=portable.directions,
        units=tuple(map(str, i.units)),
        approximate=notes.approximate,
        files=(*files, EXPORT),
    )
    serial.write(folder / EXPORT, record)
    return record


def check_free(folder: Path, *, overwrite: bool) -> None:
    """Raise PivotalError unless the folder is new, empty, or an earlier export that may be replaced."""
    with disk(folder):
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise PivotalError(
                f"An export needs a folder, but {folder} is a file or a link. Name another with --out."
            )
        if not folder.is_dir() or not any(folder.iterdir()):
            return
    if not (folder / EXPORT).is_file():
        raise PivotalError(
            f"An export needs a folder of its own, but {folder} holds other files. Nothing was changed; name another "
            "folder with --out."
        )
    serial.read(folder / EXPORT, ExportRecord)
    if not overwrite:
        raise PivotalError(
            f"{folder} holds an export already, and nothing was changed. Name another folder with --out, or replace "
            "it with --overwrite."
        )


def _put(made: Path, folder: Path) -> None:
    """Move the new files to their folder. Of an earlier export, only its own files are removed."""
    if folder.is_dir() and any(folder.iterdir()):
        for name in serial.read(folder / EXPORT, ExportRecord).files:
            _remove(folder, name)
    else:
        if folder.is_dir():
            folder.rmdir()
        os.replace(made, folder)
        return
    for path in sorted(made.rglob("*")):
        if path.is_file():
            to = inside(folder, str(path.relative_to(made)))
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(path, to)


def _remove(folder: Path, name: str) -> None:
    """Remove a file that the record of an earlier export names. The record may come from somebody else, so a path that
    leaves the folder is left alone."""
    path = Path(name)
    if path.is_absolute() or ".." in path.parts:
        return
    at = inside(folder, name)
    at.unlink(missing_ok=True)
    for parent in at.parents:
        if folder in parent.parents and parent.is_dir() and not any(parent.iterdir()):
            parent.rmdir()
