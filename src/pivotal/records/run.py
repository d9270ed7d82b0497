"""run.json: the settings of a run or a comparison, the versions and the machine."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pivotal.records.serial import Record

Kind = Literal["run", "comparison"]
Format = Literal["pivotal-run-1", "pivotal-comparison-1"]

FORMAT: dict[Kind, Format] = {"run": "pivotal-run-1", "comparison": "pivotal-comparison-1"}


class RunRecord(Record, frozen=True, omit_defaults=True, kw_only=True):
    """run.json: the settings of a run or a comparison, and how it was started."""

    formats: ClassVar[tuple[str, ...]] = tuple(FORMAT.values())

    format: Format
    settings: dict[str, Any]
    """Everything that decides the result: the question, the search with its options, and the fingerprints of all that
    they name: the model, the pairs, what must stay, bases in files, and an intervention to start from. Equal settings
    make it the same run."""
    versions: dict[str, str] = {}
    """Of Python, pivotal, torch and numpy."""
    started: str = ""
    """Date and time, UTC."""
    command: str | None = None
    """The command that starts or resumes it; empty if it was started from Python."""
    model: str | None = None
    """A description of the model."""
    device: str | None = None
    machine: str | None = None
    """The processor, or the GPU if one was used."""
    seeds: tuple[int, ...] | None = None
    """The seed of each run."""

    @property
    def kind(self) -> Kind:
        return "run" if self.format == FORMAT["run"] else "comparison"
