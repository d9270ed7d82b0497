"""The tables of docs/atlas-findings.md; scripts/atlas_findings.py puts them into the page."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from statistics import fmean, median
from typing import get_args

from phenomenon_families import family_of
from pivotal.evidence.verdict import DECIDES
from pivotal.records.evidence import Word
from pivotal.report.atlas.entries import STANDINGS, Atlas, Entry
from pivotal.report.atlas.findings import QUIET, RELIABLE

VERDICTS: tuple[Word, ...] = get_args(Word)


def groups(atlas: Atlas) -> Iterator[tuple[str, str, list[Entry]]]:
    """The searched entries of each model and kind of step that has some."""
    found: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in atlas.searched:
        found[entry.model, entry.steps].append(entry)
    for (model, steps), entries in found.items():
        yield model, steps, entries


def layer_of(site: str) -> tuple[str, int]:
    """The kind of a site and the number of its layer, to sort by."""
    name, _, number = site.partition(".")
    return name, int(number) if number.isdigit() else 0


def lines(columns: Sequence[str], rows: Iterable[Sequence[object]], text: int = 2) -> str:
    """A table in Markdown; all columns but the first `text` are numbers."""
    rules = ["---" if i < text else "---:" for i in range(len(columns))]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in (columns, rules, *rows))


def percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}%"


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def measured(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of what was measured; None if nothing was."""
    return fmean(found) if (found := measured(values)) else None


def middle(values: Iterable[float | None]) -> float | None:
    """The median of what was measured; None if nothing was."""
    return median(found) if (found := measured(values)) else None


def run_table(atlas: Atlas) -> str:
    """How many cells of each model have which standing. Standings that no cell has are left out."""
    shown = [word for word in STANDINGS if atlas.count(word)]
    rows = []
    for model in atlas.models:
        for steps in dict.fromkeys(entry.steps for entry in atlas.entries):
            words = Counter(entry.standing for entry in atlas.of(model=model) if entry.steps == steps)
            rows.append((model, steps, *(words[word] for word in shown)))
    return lines(("model", "steps", *shown), rows)


def units_table(atlas: Atlas) -> str:
    rows = []
    for model, steps, entries in groups(atlas):
        flips = [entry for entry in entries if accuracy(entry) >= RELIABLE]
        counts = Counter(len(entry.units) for entry in flips)
        rows.append(
            (
                *(model, steps, len(entries), percent(median(map(accuracy, entries))), len(flips)),
                *(counts[n] for n in (1, 2, 3, 4)),
            )
        )
    columns = (
        "model",
        "steps",
        "interventions",
        "median flips",
        "90% or more",
        *(f"with {n}" for n in (1, 2, 3, 4)),
    )
    return lines(columns, rows)


def layers(atlas: Atlas) -> dict[str, int]:
    """The highest layer of each model in which a unit was found; the lowest is 0."""
    found: dict[str, int] = {}
    for entry in atlas.searched:
        for unit in entry.units:
            found[entry.model] = max(found.get(entry.model, 0), layer_of(unit.site)[1])
    return found


def cost_table(atlas: Atlas) -> str:
    rows = []
    for model, steps, entries in groups(atlas):
        judged = [entry.row.judged for entry in entries if entry.row and entry.row.judged]
        matched = sum(one.p_value is not None and one.p_value > DECIDES for one in judged)
        rows.append(
            (
                *(model, steps, percent(median(map(accuracy, entries)))),
                percent(middle(one.interchange for one in judged)),
                percent(middle(one.whole_site for one in judged)),
                number(middle(entry.row.kl for entry in entries if entry.row)),
                number(middle(one.cue_kl for one in judged)),
                number(middle(one.text for one in judged)),
                percent(middle(one.direct for one in judged)),
                f"{matched} of {len(judged)}",
            )
        )
    columns = (
        *("model", "steps", "flips", "interchange", "whole site", "KL", "KL of the cue", "text", "direct"),
        "random as good",
    )
    return lines(columns, rows)


def shared_table(atlas: Atlas) -> str:
    """How often two phenomena share a unit: with the same labels, which are older than the rows, or in our families."""
    rows = []
    for model, steps, entries in groups(atlas):
        by_labels, by_family = (
            _sharing(entries, _labels),
            _sharing(entries, lambda e: family_of(e.phenomenon)),
        )
        counts = Counter(str(unit) for entry in entries for unit in entry.comparable)
        shared = sum(n > 1 for n in counts.values())
        rows.append((model, steps, len(counts), shared, *map(percent, (*by_labels, *by_family))))
    columns = (
        "model",
        "steps",
        "units",
        "shared",
        "same labels",
        "other labels",
        "same family",
        "other family",
    )
    return lines(columns, rows)


def _sharing(entries: Sequence[Entry], kind: Callable[[Entry], str]) -> tuple[float | None, float | None]:
    """The share of pairs of phenomena that share a unit: of the same kind, and of different kinds."""
    same: list[bool] = []
    other: list[bool] = []
    for a, b in combinations(entries, 2):
        shares = bool({str(u) for u in a.comparable} & {str(u) for u in b.comparable})
        (same if kind(a) == kind(b) else other).append(shares)
    return mean(same), mean(other)


def _labels(entry: Entry) -> str:
    return " / ".join(sorted(entry.row.by_direction)) if entry.row else ""


def specific_table(atlas: Atlas) -> str:
    """What interventions do to phenomena of their own family and of others, among those that the model knows."""
    rows = []
    for model, steps, entries in groups(atlas):
        own = [
            score.flipped
            for entry in entries
            for score in entry.cross
            if family_of(score.phenomenon) == family_of(entry.phenomenon)
            and (model, score.phenomenon) not in atlas.unknown
            and score.flipped is not None
        ]
        if away := elsewhere(atlas, entries):
            rows.append((model, steps, percent(mean(own)), *away))
    return lines(("model", "steps", "flips in the family", *ELSEWHERE), rows)


ELSEWHERE = ("others moved", "mean", "largest, median", "that move none")


def elsewhere(atlas: Atlas, entries: Sequence[Entry]) -> tuple[str, ...]:
    """What interventions do to phenomena of other families, for the columns `ELSEWHERE`; empty if none was asked."""
    changes = [away for entry in entries if (away := changes_elsewhere(atlas, entry))]
    if not changes:
        return ()
    far, most = [moved for away in changes for moved in away], [max(away) for away in changes]
    return (
        percent(sum(moved > QUIET for moved in far) / len(far)),
        *(f"{100 * fmean(far):.1f}", f"{100 * median(most):.0f}"),
        f"{sum(moved <= QUIET for moved in most)} of {len(most)}",
    )


def changes_elsewhere(atlas: Atlas, entry: Entry) -> list[float]:
    """The changes of the phenomena of other families and with other labels that the model knows."""
    own = family_of(entry.phenomenon)
    return [score.moved for score in atlas.unrelated(entry) if family_of(score.phenomenon) != own]


TABLES: dict[str, Callable[[Atlas], str]] = {
    "run": run_table,
    "units": units_table,
    "cost": cost_table,
    "shared": shared_table,
    "specific": specific_table,
}


def accuracy(entry: Entry) -> float:
    return (entry.row.accuracy if entry.row else None) or 0.0
