"""certificate.json and ablation.json: whether fewer or other units would suffice, and how thoroughly that was tried."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from msgspec.structs import force_setattr

from pivotal.errors import PivotalError
from pivotal.options import check_least
from pivotal.records.serial import Number, Record


@dataclass(frozen=True)
class Effort:
    """How many sets a certificate tries, and how thoroughly."""

    candidates: int = 32
    """Replacements tried for each unit: those with the highest first-order gain. 0 tries all units."""
    audit: int = 16
    """Random replacements also tried for each unit, to show what the screening may have missed."""
    points: int = 6
    """Values per direction at which a unit is tried."""
    sample: int = 96
    """Training prefixes on which sets are tried; 0 takes all."""
    finalists: int = 12
    """How many of the best swaps, and of the best sets of each smaller size, get fitted values."""
    polish: int = 60
    """Updates of the values."""
    pairs: Literal["screened", "all", "none"] = "screened"
    """Sets of two units to try: the best single units with promising partners, all pairs (for a GPU), or none."""
    first: int = 24
    """Single units that screened pairs start from."""
    epsilon: float = 0.005
    """Smallest difference in flips that counts, as a share of the pairs."""

    def __post_init__(self) -> None:
        check_least(self, candidates=0, audit=0, points=3, sample=0, finalists=1, polish=1, first=1)
        if not 0 <= self.epsilon < 1:
            raise PivotalError(f"epsilon is a share of the pairs, from 0 to below 1, not {self.epsilon:g}.")


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
    """The set without one of its units; the other units are refitted."""

    unit: str
    left: Judged
    matters: bool
    """Whether the other units flip less."""


class Neighbours(Record, frozen=True):
    """The sets that differ in one unit."""

    there_are: int
    tried: int
    audited: int
    """Sets drawn at random from those that were not screened in."""
    audit_hits: int
    """The number of audited sets that scored well enough to be refitted."""
    refitted: int
    best: Judged | None
    """The set that flips most within the KL bound; null if there are no other units."""
    swap: tuple[str, str] | None
    """The unit that the best set replaces, and its replacement."""
    optimal: bool
    """Whether no set that was tried is better."""


class Look(Record, frozen=True):
    """A round of screening: sets are run, but their values are not fitted."""

    sets: int
    prefixes: int
    points: int
    """Values of each unit, in each direction."""


class Smaller(Record, frozen=True, kw_only=True):
    """Sets of at most `size` units."""

    size: int
    there_are: int
    looks: tuple[Look, ...]
    """The rounds of screening; each round takes the best sets of the previous round."""
    refitted: int
    best: Judged
    """The set that flips most of all sets that were judged."""
    enough: bool
    """Whether it has fewer units than the found set and flips as much, up to epsilon."""


class Reach(Record, frozen=True, kw_only=True):
    """How far units get inside their natural ranges."""

    lifted: Judged
    """The found set with values that may leave the ranges."""
    larger: tuple[Judged, ...]
    """Larger sets inside the ranges: the found set with further units, those with the highest first-order gain. Each
    has twice as many units as the one before."""


class ExaminedPrefixes(Record, frozen=True, kw_only=True):
    """The numbers of training prefixes on which sets were compared."""

    tried: int
    """For trying swaps."""
    judged: int
    """For judging refitted sets."""
    kl: int
    """For measuring the KL of refitted sets."""


class Certificate(Record, frozen=True, kw_only=True):
    """certificate.json: which statements about a found set hold, and the evidence for them."""

    intervention: str
    """The fingerprint of the intervention that was examined."""
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
    max_change: float | None = None
    """The bound on the change of each question of `--keep`, if there is one."""
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
    """The pairs that sets are compared on: training pairs of the run, or all pairs if the intervention has no run."""
    ablation: tuple[Ablated, ...] = ()
    """Single-unit ablation of each unit of the set."""
    reach: Reach | None = None
    """For a set that was found inside natural ranges, as all its rivals are: what that costs."""

    def __post_init__(self) -> None:
        # Computed from the parts, even if a file states another value.
        needed = all(w.matters for w in self.without)
        holds = self.neighbours.optimal and needed and not any(part.enough for part in self.smaller)
        force_setattr(self, "holds", holds)

    def __repr__(self) -> str:
        holds = "holds" if self.holds else "does not hold"
        return f"Certificate({holds} for {' + '.join(self.found.units)}, {self.nodes:,} node evaluations)"

    def _repr_html_(self) -> str:
        from pivotal.report.notebook import certificate_html

        return certificate_html(self)
