"""certificate.json: what an examination of a found set showed."""

from __future__ import annotations

from typing import Literal

from msgspec.structs import force_setattr

from pivotal.records.ablation import Ablated
from pivotal.records.effort import Effort
from pivotal.records.serial import Number, Record


class Judged(Record, frozen=True, kw_only=True):
    """A set with fitted values, scored on training pairs."""

    units: tuple[str, ...]
    flipped: Number
    """Share of training preferences flipped."""
    kl: Number
    bound_kept: bool
    """Whether KL is within its bound, if there is one."""
    flipped_test: Number | None = None
    """The same on held-out pairs, if there are any."""


class Without(Record, frozen=True):
    """The set without one of its units, the others refitted."""

    unit: str
    left: Judged
    matters: bool
    """Whether the others flip less."""


class Neighbours(Record, frozen=True):
    """The sets that differ in one unit."""

    there_are: int
    tried: int
    audited: int
    """Sets drawn at random from those that the screening left out."""
    audit_hits: int
    """The audited sets that scored well enough to be a finalist."""
    refitted: int
    best: Judged | None
    """The set that flips most, of those that keep the KL bound; null if there are no other units."""
    swap: tuple[str, str] | None
    """The unit that the best set lacks, and the one in its place."""
    optimal: bool
    """Whether no set that was tried is better."""


class Look(Record, frozen=True):
    """A round in which sets are run but not fitted."""

    sets: int
    prefixes: int
    points: int
    """Values of each unit, in each direction."""


class Smaller(Record, frozen=True, kw_only=True):
    """Sets of at most `size` units."""

    size: int
    there_are: int
    looks: tuple[Look, ...]
    """The rounds of screening; each takes the best of the one before."""
    refitted: int
    best: Judged
    """The set that flips most, of all that were judged in the examination."""
    enough: bool
    """Whether it flips as much as the found set, up to epsilon, with fewer units."""


class ExaminedPrefixes(Record, frozen=True, kw_only=True):
    """The numbers of training prefixes on which sets were compared."""

    tried: int
    """On which swaps were tried."""
    judged: int
    """On which refitted sets were judged."""
    kl: int
    """On which their KL was measured."""


class Certificate(Record, frozen=True, kw_only=True):
    """certificate.json: which statements about a found set hold, and what they rest on."""

    found: Judged
    without: tuple[Without, ...]
    """The set without each of its units; empty for a single unit."""
    neighbours: Neighbours
    smaller: tuple[Smaller, ...]
    effort: Effort
    prefixes: ExaminedPrefixes
    nodes: int
    """Node evaluations."""
    seconds: Number
    max_kl: float | None = None
    """The bound on KL, if there is one."""
    holds: bool = False
    """Whether every unit matters, no swap that was tried is better, and no smaller set that was tried is as good."""
    model: str = ""
    phenomenon: str = ""
    steps: str = ""
    all_units: int = 0
    """The number of units searched."""
    run: int | None = None
    """The run of the folder that was examined."""
    pairs: Literal["train", "all"] = "train"
    """Which pairs decide: the training pairs of the run, or all pairs if the intervention has no run."""
    ablation: tuple[Ablated, ...] = ()
    """Single-unit ablation of each unit of the set."""

    def __post_init__(self) -> None:
        # Follows from the parts, whatever a file says.
        needed = all(w.matters for w in self.without)
        holds = self.neighbours.optimal and needed and not any(part.enough for part in self.smaller)
        force_setattr(self, "holds", holds)

    def __repr__(self) -> str:
        holds = "holds" if self.holds else "does not hold"
        return f"Certificate({holds} for {' + '.join(self.found.units)}, {self.nodes:,} node evaluations)"

    def _repr_html_(self) -> str:
        from pivotal.report.notebook import certificate_html

        return certificate_html(self)
