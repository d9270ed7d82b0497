"""The numbers that the paper reports for its own LSTM, for comparison with ours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pivotal.files import asset

Spread = tuple[float, float | None]
"""Mean, and standard deviation if the paper reports one."""


@dataclass(frozen=True)
class Printed:
    """One line of the paper: a row of scores, or a table of units."""

    source: str
    runs: int
    beside: Mapping[str, Mapping[str, str]]
    """By study, the labels of the line that it is compared with."""
    figures: Mapping[str, Any]

    def spread(self, name: str) -> Spread | None:
        """`flip_accuracy`, `units` or `kl`; None if the paper does not report it."""
        given = self.figures.get(name)
        return None if given is None else (given[0], given[1] if len(given) > 1 else None)


def scores_beside(study: str, cell: Mapping[str, str]) -> Printed | None:
    return _beside("scores", study, cell)


def units_beside(study: str, cell: Mapping[str, str]) -> Printed | None:
    """Its `figures["units"]` are the rows of the paper's table."""
    return _beside("units", study, cell)


def _beside(kind: str, study: str, cell: Mapping[str, str]) -> Printed | None:
    return next((p for p in printed_in(kind) if p.beside.get(study) == cell), None)


@cache
def printed_in(kind: str) -> tuple[Printed, ...]:
    """All lines of a kind that the paper reports: `scores` or `units`."""
    text = asset("paper.json").read_text(encoding="utf-8")
    lines: list[dict[str, Any]] = json.loads(text)[kind]
    known = ("source", "runs", "beside")
    return tuple(
        Printed(
            **{key: line[key] for key in known}, figures={k: v for k, v in line.items() if k not in known}
        )
        for line in lines
    )
