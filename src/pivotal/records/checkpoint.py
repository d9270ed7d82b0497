"""The part of checkpoint.pt that is not tensors."""

from __future__ import annotations

from typing import ClassVar, Literal

from pivotal.records.intervention import Card
from pivotal.records.serial import Number, Record


class CheckpointRecord(Record, frozen=True, kw_only=True):
    """The JSON in checkpoint.pt: how far a search is. The tensors beside it are the search's state and the arrays of
    the interventions."""

    formats: ClassVar[tuple[str, ...]] = ("pivotal-checkpoint-1",)

    format: Literal["pivotal-checkpoint-1"] = "pivotal-checkpoint-1"
    rows: int
    """Rows of history.jsonl that belong to it."""
    forward: int
    """Node evaluations so far."""
    backward: int
    seconds: float
    """Time spent on the search, in earlier processes too."""
    interventions: tuple[Card, ...]
    """Of each run, what it has reached; empty if that is not known."""
    stages: tuple[dict[str, dict[str, Number]], ...] | None = None
    """Of each run, the scores at each stage, if the search has finished; else null."""
