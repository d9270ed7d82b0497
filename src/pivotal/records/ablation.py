"""ablation.json: which units single-unit ablation would have found."""

from __future__ import annotations

from pivotal.records.serial import Number, Record


class Ablated(Record, frozen=True, kw_only=True):
    """The result of single-unit ablation for one unit."""

    unit: str
    """Site and index, such as `hidden.0:122`."""
    rank: int
    """Its rank among all units by effect, from 1."""
    effect: Number
    """How far the log ratio falls when this unit alone is set to zero, in nats."""
    drop: Number
    """How much of its accuracy the model loses in the condition where it loses most."""
    condition: str
    """The condition of the drop: a construction with a label, or all pairs."""
    found: bool
    """Whether single-unit ablation would have found the unit: the drop is more than 10 points."""


class Ablations(Record, frozen=True, kw_only=True):
    """ablation.json: single-unit ablation of every unit that a run of the folder found."""

    units: dict[str, Ablated]
    """One entry per unit, by site and index."""
