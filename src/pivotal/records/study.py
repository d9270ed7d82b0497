"""study.json: which study a folder holds."""

from __future__ import annotations

from typing import ClassVar, Literal

from pivotal.records.serial import Record


class StudyRecord(Record, frozen=True, kw_only=True):
    """study.json: the name of the study and how it was started. Its recipe is in recipe.yaml beside it."""

    formats: ClassVar[tuple[str, ...]] = ("pivotal-study-1",)

    format: Literal["pivotal-study-1"] = "pivotal-study-1"
    name: str
    command: str = ""
    """The command that starts or resumes the study; empty if it was started from Python."""
    started: str = ""
    """Date and time, UTC."""
