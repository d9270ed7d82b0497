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


BARS: dict[str, Callable[[Row], bool]] = {
    "units are known": lambda row: row["truth"] == "units",
    "number, up to 30% wrong labels": lambda row: row["truth"] == "carried",
    "nothing to find, searched": lambda row: row["truth"] == "nothing" and row["searched"],
    "nothing to find, refused before": lambda row: row["truth"] == "nothing" and not row["searched"],
}
"""The bars of the figure."""
_COLOURS = dict(zip(WORDS, ("#1c7a6e", "#5cb8ab", "#e3c35c", "#9aa5b0"), strict=True))
_NAME, _WIDE, _BAR = 215, 460, 26


def figure(rows: Sequence[Row]) -> str:
    """A bar for each kind of truth, divided by the verdicts."""
    parts, said = [], []
    for i, (name, belongs) in enumerate(BARS.items()):
        words = Counter(row["verdict"] for row in rows if belongs(row))
        x, y, total = float(_NAME), 12 + i * (_BAR + 8), sum(words.values())
        parts.append(f'<text x="{_NAME - 8}" y="{y + 17}" text-anchor="end">{name} ({total})</text>')
        for word in WORDS:
            if words[word]:
                wide = _WIDE * words[word] / total
                parts.append(
                    f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{_BAR}" fill="{_COLOURS[word]}"/>'
                )
                if wide > 12:
                    parts.append(f'<text x="{x + 4:.1f}" y="{y + 17}">{words[word]}</text>')
                x += wide
        said.append(f"{name}: " + ", ".join(f"{words[word]} {word}" for word in WORDS if words[word]))
    y = 12 + len(BARS) * (_BAR + 8)
    for i, word in enumerate(WORDS):
        x = _NAME + 100 * i
        parts.append(f'<rect x="{x}" y="{y}" width="11" height="11" fill="{_COLOURS[word]}"/>')
        parts.append(f'<text x="{x + 16}" y="{y + 10}">{word}</text>')
    wide, high = _NAME + _WIDE + 12, y + 24
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" role="img" aria-labelledby="t d">\n'
        f'<title id="t">The verdicts of the bench</title>\n<desc id="d">{"; ".join(said)}.</desc>\n'
        f'<style>text{{font:12px Helvetica,Arial,sans-serif;fill:#1d2329}}</style>\n<rect width="{wide}" '
        f'height="{high}" rx="8" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _share(hits: int, of: int) -> str:
    if not of:
        return "–"
    low, high = exact_low(hits, of, 0.025), 1 - exact_low(of - hits, of, 0.025)
    return f"{hits} of {of}: {hits / of:.1%} ({low:.1%}–{high:.1%})"
