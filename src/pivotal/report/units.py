"""The table of the chosen run's units."""

from __future__ import annotations

import re

from pivotal.records.evidence import UnitRange
from pivotal.records.summary import Summary
from pivotal.report.tables import Table, drop_of, points
from pivotal.report.trace import activation

MISSING = (
    "An earlier version of pivotal made this run and stored nothing about its units in the untouched model. This "
    "command adds it; it loads the model:"
)


def anchor(unit: str) -> str:
    """The name of a unit's page in the address, such as `unit-hidden-1-278`."""
    return "unit-" + re.sub(r"[^A-Za-z0-9]+", "-", unit)


def chosen_table(summary: Summary) -> Table:
    """The units of the chosen run: their values, their natural ranges, and what is lost without each."""
    run, ranges = summary.best_run, _ranges(summary)
    rows = []
    for i, (unit, label) in enumerate(zip(run.unit_numbers, run.unit_labels, strict=True)):
        values = [shown_value(run.values[direction][i]) for direction in summary.labels]
        drop = drop_of(run, label)
        lost = "the only unit" if drop is None and len(run.unit_labels) == 1 else points(drop)
        cells = [str(unit), label, *values]
        if ranges:
            found = ranges.get(label)
            cells.append("–" if found is None else f"{activation(found.low)} to {activation(found.high)}")
        cells.append(lost)
        if len(summary.runs) > 1:
            cells.append(
                f"{sum(label in other.unit_labels for other in summary.runs)} of {len(summary.runs)}"
            )
        rows.append(tuple(cells))
    columns = ["unit", "site", *(f"→ {label}" for label in summary.labels)]
    columns += ["natural range"] * bool(ranges) + ["without it"] + ["found by runs"] * (len(summary.runs) > 1)
    return Table("Units", tuple(columns), tuple(rows), frozenset({0, *range(2, len(columns))}))


def note(summary: Summary) -> str:
    """What the columns of the table mean, as far as they are there."""
    said = [
        "“unit” is the number of the unit, from 1 over all layers. “site” is the same unit as layer and index, from 0. "
        "“→” is the value that the unit is set to for flipping to that label."
    ]
    if summary.values == "interchange":
        said.append(
            "Each pair sets it to its state in the counterfactual prefix; the value is the mean over pairs."
        )
    if any(label.startswith("head") for label in summary.best_run.unit_labels):
        said.append("An attention head has many values; the table shows their root mean square.")
    if _ranges(summary):
        said.append(
            "“natural range” is the 1st to the 99th percentile of its states in the untouched model, at the edited "
            "steps."
        )
    if len(summary.best_run.unit_labels) > 1:
        said.append(
            "“without it” is the change in flipped preferences, in percentage points, when this unit is not set and "
            "the others are."
        )
    return " ".join(said)


def _ranges(summary: Summary) -> dict[str, UnitRange]:
    natural = None if summary.evidence is None else summary.evidence.natural
    return {} if natural is None else {found.unit: found for found in natural.ranges}


def shown_value(value: float | None) -> str:
    """The value that a unit is set to."""
    return "left alone" if value is None else activation(value)
