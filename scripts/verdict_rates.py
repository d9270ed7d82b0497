"""How often the verdict is right: the tables of the bench, from the rows of benchmarks/calibration.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from pivotal.evidence.intervals import exact_low

Row = dict[str, Any]
WORDS = ("decide", "switch", "nudge", "no evidence")
TRUTHS = ("units", "nothing", "carried")


def right(row: Row) -> bool:
    """Whether the verdict says what is true."""
    above = row["verdict"] in ("switch", "decide")
    return bool(row["verdict"] == "no evidence") if row["truth"] == "nothing" else above


RATES: dict[str, tuple[str, Callable[[Row], bool]]] = {
    "false *decide*": ("nothing", lambda row: row["verdict"] == "decide"),
    "false *switch* or *decide*": ("nothing", lambda row: row["verdict"] in ("switch", "decide")),
    "false *nudge* or more": ("nothing", lambda row: row["verdict"] != "no evidence"),
    "*switch* or *decide* where units are known": ("units", right),
    "units found exactly": ("units", lambda row: bool(row.get("recovered"))),
    "*switch* or *decide* for number, 0 to 30% noise": ("carried", right),
}


def by_kind(rows: Sequence[Row]) -> str:
    """What the verdict said of each kind of question."""
    lines = ["| kind | truth | questions | searched | verdicts | units found exactly |"]
    lines.append("|---|---|---:|---:|---|---:|")
    ordered = sorted(rows, key=lambda row: TRUTHS.index(row["truth"]))
    searched = {row["kind"] for row in ordered if row["searched"]}
    kinds = {
        row["kind"]: row["kind"] if row["kind"] in searched else "refused before a search" for row in ordered
    }
    for kind in dict.fromkeys(kinds.values()):
        part = [row for row in ordered if kinds[row["kind"]] == kind]
        words = Counter(row["verdict"] for row in part)
        said = ", ".join(f"{word} {words[word]}" for word in WORDS if words[word])
        exact = sum(bool(row.get("recovered")) for row in part) if part[0]["truth"] == "units" else ""
        counts = (len(part), sum(row["searched"] for row in part), said, exact)
        lines.append(f"| {kind} | {part[0]['truth']} | {' | '.join(map(str, counts))} |")
    return "\n".join(lines)


def rates(rows: Sequence[Row]) -> str:
    """How often it was wrong and right: in the half held out for reporting, in all, and in all that were searched."""
    lines = ["| | held-out half | all | all, searched only |", "|---|---|---|---|"]
    for name, (truth, hit) in RATES.items():
        asked = [row for row in rows if row["truth"] == truth]
        parts = [[row for row in asked if row["half"] in halves] for halves in ((1,), (0, 1))]
        parts.append([row for row in asked if row["searched"]])
        lines.append(f"| {name} | {' | '.join(_share(sum(map(hit, part)), len(part)) for part in parts)} |")
    return "\n".join(lines)


def _share(hits: int, of: int) -> str:
    if not of:
        return "–"
    low, high = exact_low(hits, of, 0.025), 1 - exact_low(of - hits, of, 0.025)
    return f"{hits} of {of}: {hits / of:.1%} ({low:.1%}–{high:.1%})"
