"""What `pivotal evaluate RUN QUESTION` prints for questions with other labels, or for several questions."""

from __future__ import annotations

from pivotal.records.evidence import Effect
from pivotal.records.serial import Record


class TransferRow(Record, frozen=True, kw_only=True):
    """One question with the intervention applied."""

    question: str
    effect: Effect | None = None
    """Null if it cannot be asked."""
    reason: str = ""
    """Why it cannot be asked."""
    prefix_in_training: int | None = None
    """How many of its pairs have a prefix that the run's training pairs have. Null if it is not known."""


class Transfer(Record, frozen=True, kw_only=True):
    """The transfer of an intervention to other questions than the one that it was found for."""

    model: str
    phenomenon: str
    """The phenomenon that the intervention was found for."""
    directions: tuple[str, str]
    rows: tuple[TransferRow, ...]
