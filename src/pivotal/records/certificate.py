"""What can be said about a found set once it has been examined, and how much examining it takes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from pivotal.errors import PivotalError


@dataclass(frozen=True)
class Effort:
    """How much is tried."""

    candidates: int = 32
    """Units tried in the place of each unit, those of the highest first-order gain; 0 tries all."""
    audit: int = 16
    """Units drawn at random from the others, for each unit: they say what the screening may have missed."""
    points: int = 6
    """Values per direction at which a unit is tried."""
    sample: int = 96
    """Training prefixes on which it is tried; 0 takes all."""
    finalists: int = 12
    """Of the sets tried, so many of the best have their values fitted: of the swaps, and of each smaller size."""
    polish: int = 60
    """Updates of the values."""
    pairs: Literal["screened", "all", "none"] = "screened"
    """Sets of two units: the best single units with promising partners, or every pair there is (for a GPU)."""
    first: int = 24
    """Single units from which screened pairs are grown."""
    epsilon: float = 0.005
    """Flips that count as more."""

    def __post_init__(self) -> None:
        least = {"points": 3} | dict.fromkeys(("finalists", "polish", "first"), 1)
        for name in ("candidates", "audit", "sample", *least):
            if getattr(self, name) < least.get(name, 0):
                raise PivotalError(
                    f"{name} must be {least.get(name, 0)} or more, but it is {getattr(self, name)}."
                )
        if not 0 <= self.epsilon < 1:
            raise PivotalError(f"epsilon is a share of the flips, 0 or more, but it is {self.epsilon:g}.")


@dataclass(frozen=True)
class Judged:
    """A set with fitted values, on training pairs (and held-out ones where there are some)."""

    units: tuple[str, ...]
    flipped: float
    kl: float
    bound_kept: bool
    """Whether KL is within its bound, if there is one."""
    flipped_test: float | None = None


@dataclass(frozen=True)
class Without:
    """What is left without one of the units, the others refitted."""

    unit: str
    left: Judged
    matters: bool


@dataclass(frozen=True)
class Neighbours:
    """The sets that differ in one unit."""

    there_are: int
    tried: int
    audited: int
    """Of those that the screening left out, so many were drawn at random and tried."""
    audit_hits: int
    """Of these, those that scored well enough to be a finalist."""
    refitted: int
    best: Judged | None
    """The one that flips most, of those that keep the KL bound; None where the set has all units that there are."""
    swap: tuple[str, str] | None
    """The unit that the best lets go, and the one in its place."""
    optimal: bool


@dataclass(frozen=True)
class Look:
    """A round in which sets are run but not fitted."""

    sets: int
    prefixes: int
    points: int
    """Values of each unit, in each direction."""


@dataclass(frozen=True)
class Smaller:
    """Sets of no more than so many units."""

    size: int
    there_are: int
    looks: tuple[Look, ...]
    """Each at the best of the one before."""
    refitted: int
    best: Judged
    """The one that flips most, of all that were judged, those met elsewhere in the examination included."""
    enough: bool
    """Whether it flips no less than the set found, up to epsilon, though it has fewer units."""


@dataclass(frozen=True)
class Certificate:
    found: Judged
    without: tuple[Without, ...]
    neighbours: Neighbours
    smaller: tuple[Smaller, ...]
    effort: Effort
    prefixes: dict[str, int]
    """On how many training prefixes swaps were tried, and refitted sets were judged; and on how many their KL."""
    nodes: int
    seconds: float

    max_kl: float | None = None

    @property
    def holds(self) -> bool:
        """Every unit matters, no swap that was tried is better, and no smaller set that was tried is as good."""
        needed = all(w.matters for w in self.without)
        return self.neighbours.optimal and needed and not any(part.enough for part in self.smaller)

    def as_dict(self) -> dict[str, Any]:
        return {"holds": self.holds, **asdict(self)}

    def __repr__(self) -> str:
        holds = "holds" if self.holds else "does not hold"
        return f"Certificate({holds} for {' + '.join(self.found.units)}, {self.nodes:,} node evaluations)"

    def _repr_html_(self) -> str:
        from pivotal.report.notebook import certificate_html

        return certificate_html(self)
