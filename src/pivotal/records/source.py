"""source.json: where a pulled intervention comes from."""

from __future__ import annotations

from typing import ClassVar, Literal

from pivotal.records.serial import Record

SOURCE = "source.json"


class SourceRecord(Record, frozen=True, kw_only=True):
    """source.json: the repository and the commit that `pivotal pull` took an intervention from."""

    formats: ClassVar[tuple[str, ...]] = ("pivotal-source-1",)

    format: Literal["pivotal-source-1"] = "pivotal-source-1"
    repository: str
    """The name of a repository on the Hugging Face hub, or the path of a folder."""
    commit: str | None = None
    """The commit that the files belong to; null if they come from a folder."""
    files: dict[str, str] = {}
    """The SHA-256 of each file, by name."""
