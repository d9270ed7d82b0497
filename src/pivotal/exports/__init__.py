"""Interventions in the formats of other libraries. One file in this folder adds a target."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pivotal.errors import PivotalError
from pivotal.exports.base import ExportNotes, Portable, SiteEdit, Target, check_folder
from pivotal.exports.templates import about, render
from pivotal.files import disk, replaced, write_text
from pivotal.models.base import LanguageModel, checked
from pivotal.models.transformers.gguf import converted_from
from pivotal.records import serial
from pivotal.records.exported import EXPORT, ExportRecord
from pivotal.records.intervention import Intervention
from pivotal.registry import Registry

_LISTED = 40
"""The most units in the table of a README."""

TARGETS: Registry[Target] = Registry("exports", __name__, Target)  # type: ignore[type-abstract]

__all__ = ["ExportNotes", "Portable", "SiteEdit", "Target"]


def export(portable: Portable, to: str, folder: str | Path, *, overwrite: bool = False) -> ExportRecord:
    """Write an intervention to a folder in the format of the target `to`, with a README that says how to use it.

    Everything is written beside the folder first, so that a failed export leaves the folder as it was.
    """
    target, folder = TARGETS.get(to)(), Path(folder)
    check_free(folder, overwrite=overwrite)
    target.check_steps(portable.intervention.steps)
    with disk(folder), replaced(folder) as made:
        record = write_files(portable, target, made)
        check_free(folder, overwrite=overwrite)  # something may have appeared in the meantime
    return record


def of_model(model: Any, intervention: Intervention) -> LanguageModel:
    """The loaded model that an intervention was found in. Raises PivotalError if this is another, or none."""
    checked(model).recognise(intervention.model_fingerprint)
    intervention.check_model(model.name, model.fingerprint())
    return model


def write_files(portable: Portable, target: Target, folder: Path) -> ExportRecord:
    """Write the files of a target into an empty folder, with README.md and export.json."""
    notes = target.write(portable, folder)
    i = portable.intervention
    loaded = rf"(model|tokenizer) = Auto\w+\.from_pretrained\({re.escape(repr(portable.base))}.*"
    text = render(
        "README.md",
        target=target,
        use=re.sub(loaded, r"\1 = ...  # your \1", notes.use) if portable.in_memory else notes.use,
        in_memory=portable.in_memory,
        yours=portable.model.in_memory,
        gguf=converted_from(portable.base) if repr(portable.base) in notes.use else "",
        approximate=notes.approximate,
        priming=portable.priming,
        dtype=str(portable.model.network.dtype)[6:],
        rows=list(zip(i.units, zip(*i.shown_values.values(), strict=True), strict=True)),
        listed=_LISTED,
        heads=any(unit.size > 1 for unit in i.units),
        **about(i, portable.pairs, portable.verdict),
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
    files = check_folder(
        folder, lambda there: serial.read(folder / EXPORT, ExportRecord).files if EXPORT in there else ()
    )
    if files and not overwrite:
        raise PivotalError(f"{folder} holds an export. Name another --out, or replace it with --overwrite.")
