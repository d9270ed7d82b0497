"""history.jsonl: the course of a search, one row per report of its progress."""

from __future__ import annotations

from pivotal.records.serial import Number, Record


class Progress(Record, frozen=True):
    """The progress of a search, for a progress bar and as a row of history.jsonl. Lists have one number per run."""

    phase: str
    """What the search is doing, such as `learn`, `refit` or the name of a stage."""
    update: int
    """Updates done in this phase."""
    updates: int
    """All updates of this phase."""
    loss: list[Number]
    units: list[Number]
    """Units in the mask; the expected number while the mask is relaxed."""
    accuracy: list[Number]
    """Share of flipped preferences on the training pairs of the batch."""
    extra: dict[str, list[Number]] = {}
    """Further series by name, such as `multiplier`."""
