"""export.json and source.json: what an exported and a pulled intervention say about where they come from."""

from __future__ import annotations

from pivotal.records.serial import Record
from pivotal.units import Steps

EXPORT = "export.json"


class ExportRecord(Record, frozen=True, kw_only=True, tag_field="format", tag="pivotal-export-1"):
    """export.json: an intervention in the format of another library."""

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


SOURCE = "source.json"


class SourceRecord(Record, frozen=True, kw_only=True, tag_field="format", tag="pivotal-source-1"):
    """source.json: the repository and the commit that `pivotal pull` took an intervention from."""

    repository: str
    """The name of a repository on the Hugging Face hub, or the path of a folder."""
    commit: str | None = None
    """The commit that the files belong to; null if they come from a folder."""
    files: dict[str, str] = {}
    """The SHA-256 of each file, by name."""

    def __str__(self) -> str:
        return f"{self.repository} at commit {self.commit}" if self.commit else self.repository
