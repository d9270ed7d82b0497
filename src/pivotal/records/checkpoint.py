"""The part of checkpoint.pt that is not tensors."""

from __future__ import annotations

from typing import ClassVar, Literal

from pivotal.records.intervention import Card
from pivotal.records.serial import Number, Record


class CheckpointRecord(Record, frozen=True, kw_only=True):
    """The JSON in checkpoint.pt: the progress of a search. The file also holds tensors: the state of the search and the
    arrays of the interventions."""

    formats: ClassVar[tuple[str, ...]] = ("pivotal-checkpoint-1",)

    format: Literal["pivotal-checkpoint-1"] = "pivotal-checkpoint-1"
    rows: int
    """The number of rows in history.jsonl when the checkpoint was saved."""
    forward: int
    """Node evaluations so far."""
    backward: int
    seconds: float
    """Time spent on the search, including earlier processes."""
    interventions: tuple[Card, ...]
    """The current intervention of each run; empty while there is none."""
    stages: tuple[dict[str, dict[str, Number]], ...] | None = None
    """The scores of each run at each stage; null until the search has finished."""
