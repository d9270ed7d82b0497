"""How thorough a certificate is. Apart from the certificate itself, since the command line needs the defaults only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
