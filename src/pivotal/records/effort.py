"""How thorough a certificate is. The command line imports this module for the defaults, so it is light."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pivotal.errors import PivotalError


@dataclass(frozen=True)
class Effort:
    """How many sets a certificate tries, and how thoroughly."""

    candidates: int = 32
    """Units tried in place of each unit: those with the highest first-order gain. 0 tries all units."""
    audit: int = 16
    """Random units also tried in place of each unit; they show what the screening may have missed."""
    points: int = 6
    """Values per direction at which a unit is tried."""
    sample: int = 96
    """Training prefixes on which sets are tried; 0 takes all."""
    finalists: int = 12
    """How many of the best sets get fitted values: among the swaps, and among the sets of each smaller size."""
    polish: int = 60
    """Updates of the values."""
    pairs: Literal["screened", "all", "none"] = "screened"
    """Sets of two units to try: the best single units with promising partners, all pairs (for a GPU), or none."""
    first: int = 24
    """Single units that screened pairs start from."""
    epsilon: float = 0.005
    """Smallest difference in flips that counts, as a share of the pairs."""

    def __post_init__(self) -> None:
        least = {"points": 3} | dict.fromkeys(("finalists", "polish", "first"), 1)
        for name in ("candidates", "audit", "sample", *least):
            if getattr(self, name) < least.get(name, 0):
                raise PivotalError(
                    f"{name} must be {least.get(name, 0)} or more, but it is {getattr(self, name)}."
                )
        if not 0 <= self.epsilon < 1:
            raise PivotalError(
                f"epsilon must be a share of the pairs, from 0 to less than 1, but it is {self.epsilon:g}."
            )
