"""export.json: what an exported folder holds."""

from __future__ import annotations

from typing import ClassVar, Literal

from pivotal.records.serial import Record
from pivotal.units import Steps

EXPORT = "export.json"


class ExportRecord(Record, frozen=True, kw_only=True):
    """export.json: an intervention in the format of another library."""

    formats: ClassVar[tuple[str, ...]] = ("pivotal-export-1",)

    format: Literal["pivotal-export-1"] = "pivotal-export-1"
    target: str
    """The name of the format or library, such as `peft`."""
    model: str
    model_fingerprint: str
    """Identifies the weights of the model and the text that it reads first."""
    phenomenon: str
    steps: Steps
    """Whether the units are set at every step of the prefix or at the cue only."""
    directions: tuple[str, ...]
    """The labels that were exported."""
    units: tuple[str, ...]
    """Site and index, such as `mlp.3:122`."""
    approximate: tuple[str, ...] = ()
    """How the export differs from the intervention, a sentence each; empty if it is exact."""
    files: tuple[str, ...] = ()
    """The files of the export, by their paths in the folder."""
