"""What an atlas says, in sentences that are computed from its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

from pivotal.report.atlas.entries import Atlas, Entry
from pivotal.report.tables import Table, counted, percent, table

RELIABLE = 0.9
"""The share of flips from which an intervention is counted as reliable below. It is not a verdict."""
QUIET = 0.05
"""Changes in accuracy that are smaller do not count, and are not shown: the table of a large atlas can be read."""


def findings_of(atlas: Atlas) -> list[str]:
    """A text for each question that the atlas answers."""
    searched = atlas.searched
    if not searched:
        return ["Nothing has been searched yet."]
    return [_units(searched), _natural(searched), _specific(atlas), _sharing(atlas)]


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


def _natural(entries: Sequence[Entry]) -> str:
    """What is left inside the natural ranges, of interventions that may leave them."""
    rows = [entry.row for entry in entries if entry.row]
    within = [row for row in rows if row.values == "natural"]
    shares = [
        row.judged.natural
        for row in rows
        if row.values != "natural" and row.judged and row.judged.natural is not None
    ]
    said = []
    if within:
        of = "" if len(within) == len(rows) else f" of {len(within)} of {len(rows)} cells"
        said.append(f"The search{of} kept every value inside its unit's natural range.")
    if shares:
        inside = sum(share >= RELIABLE for share in shares)
        said.append(
            f"With every value moved into its unit's natural range, {inside} of {len(shares)} flip at least "
            f"{percent(RELIABLE)}; the median is {percent(median(shares))}."
        )
    return " ".join(said)


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
    parts = []
    for model in atlas.models:
        units = atlas.units(model)
        if units:
            parts.append(f"{len(atlas.shared(model))} of {counted(len(units), 'unit')} in {model}")
    return f"Units that serve more than one phenomenon: {'; '.join(parts)}." if parts else ""


def what_is_known(atlas: Atlas) -> Table:
    """How many phenomena each model knows, searched or not."""
    rows = []
    for column in atlas.columns:
        words = Counter(entry.standing for entry in atlas.entries if entry.column == column)
        known = words.total() - words["unknown"] - words["failed"] - words["not run"]
        rows.append((column, str(known), str(words["unknown"]), str(words["failed"] + words["not run"])))
    return table("What the models know", ("model, steps", "known", "unknown", "not checked"), rows)


def by_model(atlas: Atlas) -> Table:
    """The verdicts and the numbers of units, model by model."""
    rows = []
    for model in atlas.models:
        entries = atlas.of(model=model)
        words = Counter(entry.standing for entry in entries)
        searched = [entry for entry in entries if entry.units]
        units = [len(entry.units) for entry in searched]
        rows.append(
            (
                model,
                str(len(entries)),
                str(words["unknown"]),
                *(str(words[word]) for word in ("decide", "switch", "nudge", "no evidence")),
                f"{median(units):g}" if units else "–",
            )
        )
    return table(
        "By model",
        ("model", "cells", "not known", "decide", "switch", "nudge", "no evidence", "median units"),
        rows,
    )
