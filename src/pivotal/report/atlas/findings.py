"""What an atlas says, in sentences that are computed from its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

from pivotal.printing import counted
from pivotal.report.atlas.entries import STANDINGS, Atlas, Entry
from pivotal.report.tables import Table, percent, table

RELIABLE = 0.9
"""The share of flips from which an intervention is counted as reliable below. It is not a verdict."""
QUIET = 0.05
"""Changes in accuracy that are smaller do not count, and are not shown: the table of a large atlas can be read."""


def findings_of(atlas: Atlas) -> list[str]:
    """A text for each question that the atlas answers."""
    searched = atlas.searched
    if not searched:
        return ["Nothing has been searched yet."]
    return [_units(searched), _specific(atlas), _sharing(atlas)]


def _units(entries: Sequence[Entry]) -> str:
    flips = [entry for entry in entries if ((entry.row and entry.row.accuracy) or 0) >= RELIABLE]
    if not flips:
        return f"No intervention flips {percent(RELIABLE)} of its held-out preferences."
    counts = Counter(len(entry.units) for entry in flips)
    listed = ", ".join(f"{n} with {counted(units, 'unit')}" for units, n in sorted(counts.items()))
    return (
        f"{len(flips)} of {counted(len(entries), 'intervention')} flip at least {percent(RELIABLE)} of their held-out "
        f"preferences: {listed}."
    )


def _specific(atlas: Atlas) -> str:
    changes = [[score.moved for score in atlas.unrelated(entry)] for entry in atlas.searched]
    changes = [moved for moved in changes if moved]
    if not changes:
        return ""
    most = [max(moved) for moved in changes]
    quiet = sum(one <= QUIET for one in most)
    loud = [sum(one > QUIET for one in moved) / len(moved) for moved in changes]
    return (
        f"{quiet} of {len(most)} interventions move no phenomenon with other labels by more than {100 * QUIET:.0f} "
        f"points. In the median an intervention moves {percent(median(loud))} of them by more than that, and the "
        f"largest change is {100 * median(most):.0f} points. Phenomena that the model does not know are not counted."
    )


def _sharing(atlas: Atlas) -> str:
    parts = [
        f"{len(atlas.shared[model])} of {counted(len(units), 'unit')} in {model}"
        for model, units in atlas.units.items()
        if units
    ]
    return f"Units that serve more than one phenomenon: {'; '.join(parts)}." if parts else ""


def standings(atlas: Atlas) -> Table:
    """How the cells of each model stand."""
    words = [standing for standing in STANDINGS if atlas.count(standing)]
    rows = []
    for column in atlas.columns:
        count = Counter(entry.standing for entry in atlas.entries if entry.column == column)
        rows.append((column, *(str(count[word]) for word in words)))
    return table("By model", ("model, steps", *words), rows)
