"""How the rows of a study are shown: the key `table` of a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pivotal.errors import PivotalError


@dataclass(frozen=True)
class TableLayout:
    """What tables are made of the rows."""

    kind: Literal["scores", "units"] = "scores"
    """`scores`: a line per cell, means over its runs; `units`: then a table per cell of the units that were found."""
    pool: str | None = None
    """An axis over which a further line takes all runs together, such as the models of one question."""
    least: float = 0.1
    """Units that fewer than this share of the runs found are counted, not listed."""

    def __post_init__(self) -> None:
        if not 0 <= self.least <= 1:
            raise PivotalError(f"'least' is a share of the runs, 0 to 1, but it is {self.least:g}.", "least")
