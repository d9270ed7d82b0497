"""The tables of docs/atlas-findings.md; scripts/atlas_findings.py puts them into the page."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from math import isfinite, nan
from statistics import fmean, median

from phenomenon_families import FAMILIES, family_of
from pivotal.report.atlas.cross import QUIET
from pivotal.report.atlas.entries import STANDINGS, Atlas, Entry
from pivotal.report.atlas.findings import RELIABLE


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


def percent(share: float) -> str:
    return f"{100 * share:.1f}%" if isfinite(share) else "–"


def mean(values: Sequence[float]) -> float:
    """NaN for no values: a model may have a single row so far, with no other to compare it with."""
    return fmean(values) if values else nan


def middle(values: Iterable[float | None]) -> float:
    """The median of the values that there are; NaN if there are none."""
    there = [value for value in values if value is not None]
    return median(there) if there else nan


def run_table(atlas: Atlas) -> str:
    rows = []
    for model in atlas.models:
        for steps in dict.fromkeys(entry.steps for entry in atlas.entries):
            words = Counter(entry.standing for entry in atlas.of(model=model) if entry.steps == steps)
            rows.append((model, steps, *(words[word] for word in STANDINGS)))
    return lines(("model", "steps", *STANDINGS), rows)


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


def layers_table(atlas: Atlas) -> str:
    rows = []
    for model, steps, entries in groups(atlas):
        counts = Counter(unit.site for entry in entries for unit in entry.units)
        total = sum(counts.values())
        alone = Counter(sites.pop() for entry in entries if len(sites := {u.site for u in entry.units}) == 1)
        for site in sorted(counts, key=layer_of):
            rows.append((model, steps, site, counts[site], percent(counts[site] / total), alone[site]))
    return lines(("model", "steps", "site", "units", "share", "interventions in it alone"), rows, text=3)


def cost_table(atlas: Atlas) -> str:
    rows = []
    for model, steps, entries in groups(atlas):
        judged = [entry.row.judged for entry in entries if entry.row and entry.row.judged]

        natural = [one.natural for one in judged if one.natural is not None]
        rows.append(
            (
                *(model, steps, percent(median(map(accuracy, entries))), percent(middle(natural))),
                f"{sum(share >= RELIABLE for share in natural)} of {len(natural)}",
                percent(middle(one.interchange for one in judged)),
                f"{middle(entry.row.kl for entry in entries if entry.row):.2f}",
                f"{middle(one.text for one in judged):.2f}",
                percent(middle(one.direct for one in judged)),
            )
        )
    columns = (
        "model",
        "steps",
        "flips",
        "natural",
        "natural, 90% or more",
        "interchange",
        "KL",
        "text",
        "direct",
    )
    return lines(columns, rows)


def families_table(atlas: Atlas) -> str:
    rows = []
    for model, steps, entries in groups(atlas):
        for family in FAMILIES:
            mine = [entry for entry in entries if family_of(entry.phenomenon) == family]
            natural = [e.row.judged.natural or 0.0 for e in mine if e.row and e.row.judged]
            if mine:
                rows.append(
                    (
                        *(model, steps, family, len(mine), percent(fmean(map(accuracy, mine)))),
                        f"{fmean(len(entry.units) for entry in mine):.1f}",
                        percent(mean(natural)),
                        f"{fmean(entry.row.kl or 0.0 for entry in mine if entry.row):.2f}",
                    )
                )
    columns = ("model", "steps", "family", "phenomena", "flips", "units", "natural", "KL")
    return lines(columns, rows, text=3)


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


def _sharing(entries: Sequence[Entry], kind: Callable[[Entry], str]) -> tuple[float, float]:
    """The share of pairs of phenomena that share a unit: of the same kind, and of different kinds."""
    same: list[bool] = []
    other: list[bool] = []
    for a, b in combinations(entries, 2):
        shares = bool({str(u) for u in a.comparable} & {str(u) for u in b.comparable})
        (same if kind(a) == kind(b) else other).append(shares)
    return mean(same), mean(other)


def _labels(entry: Entry) -> str:
    return " / ".join(entry.row.by_direction) if entry.row else ""


def units_shared_table(atlas: Atlas) -> str:
    """The units that the most phenomena share."""
    rows = []
    for model, steps, entries in groups(atlas):
        found: dict[str, list[str]] = defaultdict(list)
        for entry in entries:
            for unit in entry.comparable:
                found[str(unit)].append(entry.phenomenon)
        most = sorted(found.items(), key=lambda item: -len(item[1]))[:8]
        for shared, names in most:
            kinds = Counter(family_of(name) for name in names)
            said = "; ".join(f"{family} {n}" for family, n in kinds.most_common())
            rows.append((model, steps, f"`{shared}`", said, len(names)))
    return lines(("model", "steps", "unit", "families", "phenomena"), rows, text=4)


def specific_table(atlas: Atlas) -> str:
    """What interventions do to phenomena of their own family and of others, among those that the model knows."""
    rows = []
    for model, steps, entries in groups(atlas):
        own, far, most = [], [], []
        for entry in entries:
            for score in entry.cross:
                near = family_of(score.phenomenon) == family_of(entry.phenomenon)
                known = (model, score.phenomenon) not in atlas.unknown
                if near and known and score.flipped is not None:
                    own.append(score.flipped)
            away = _changes_elsewhere(atlas, entry)
            far += away
            most.append(max(away, default=0.0))
        rows.append(
            (
                *(model, steps, percent(mean(own)), percent(mean([m > QUIET for m in far]))),
                *(f"{100 * mean(far):.1f}", f"{100 * middle(most):.0f}"),
                f"{sum(m <= QUIET for m in most)} of {len(most)}",
            )
        )
    columns = (
        *("model", "steps", "flips in the family", "others moved", "mean", "largest, median"),
        "that move none",
    )
    return lines(columns, rows)


def _changes_elsewhere(atlas: Atlas, entry: Entry) -> list[float]:
    """The changes of the phenomena of other families and with other labels that the model knows."""
    own = family_of(entry.phenomenon)
    return [score.moved for score in atlas.unrelated(entry) if family_of(score.phenomenon) != own]


def number_table(atlas: Atlas) -> str:
    """Flips of the phenomena of number, by the families of the intervention and of the phenomenon."""
    kinds = [family for family in FAMILIES if family.startswith("number")]
    rows = []
    for model, steps, entries in groups(atlas):
        for of in kinds:
            flips = {
                on: [
                    score.flipped
                    for entry in entries
                    if family_of(entry.phenomenon) == of
                    for score in entry.cross
                    if score.flipped is not None
                    and family_of(score.phenomenon) == on
                    and (model, score.phenomenon) not in atlas.unknown
                ]
                for on in kinds
            }
            rows.append((model, steps, of, *(percent(mean(found)) for found in flips.values())))
    return lines(("model", "steps", "interventions of", *(f"flip {kind}" for kind in kinds)), rows, text=3)


def quiet_table(atlas: Atlas) -> str:
    """The interventions that flip most preferences of their own and move the fewest others."""
    rows = []
    for model, steps, entries in groups(atlas):
        found = []
        for entry in (entry for entry in entries if accuracy(entry) >= RELIABLE):
            away = _changes_elsewhere(atlas, entry)
            if away:
                found.append((mean([m > QUIET for m in away]), mean(away), entry))
        found.sort(key=lambda one: one[:2])
        for loud, change, entry in (*found[:3], *found[3:][-3:]):
            rows.append(
                (
                    model,
                    steps,
                    f"`{entry.phenomenon}`",
                    percent(accuracy(entry)),
                    percent(loud),
                    f"{100 * change:.1f}",
                )
            )
    return lines(("model", "steps", "intervention of", "flips", "others moved", "mean"), rows, text=3)


def blimp_table(atlas: Atlas) -> str:
    """The paradigms of BLiMP, with the standing of each model."""
    paradigms = [name for name in atlas.phenomena if name.startswith("BLiMP ")]
    kinds = [(model, steps) for model, steps, _ in groups(atlas)]
    rows = []
    for name in paradigms:
        mine = {(entry.model, entry.steps): entry for entry in atlas.of(phenomenon=name)}
        rows.append((f"`{name.removeprefix('BLiMP ')}`", *(_in_short(mine[kind]) for kind in kinds)))
    return lines(("paradigm", *(f"{model}, {steps}" for model, steps in kinds)), rows, text=1 + len(kinds))


def seconds_table(atlas: Atlas) -> str:
    rows = []
    for model, steps, entries in groups(atlas):
        seconds = [entry.row.total_seconds for entry in entries if entry.row and entry.row.total_seconds]
        machine = Counter(entry.row.machine for entry in entries if entry.row).most_common(1)[0][0]
        shown = (
            f"{median(seconds):.0f}",
            f"{min(seconds):.0f}",
            f"{max(seconds):.0f}",
            f"{sum(seconds) / 60:.0f}",
        )
        rows.append((model, steps, machine, len(seconds), *shown))
    return lines(
        ("model", "steps", "machine", "cells", "median s", "least", "most", "total min"), rows, text=3
    )


TABLES: dict[str, Callable[[Atlas], str]] = {
    "run": run_table,
    "units": units_table,
    "layers": layers_table,
    "cost": cost_table,
    "families": families_table,
    "shared": shared_table,
    "shared-units": units_shared_table,
    "specific": specific_table,
    "number": number_table,
    "quiet": quiet_table,
    "blimp": blimp_table,
    "seconds": seconds_table,
}


def accuracy(entry: Entry) -> float:
    return (entry.row.accuracy if entry.row else None) or 0.0


def _in_short(entry: Entry) -> str:
    if entry.row is None or not entry.row.done:
        return entry.standing
    known = "" if entry.row.clean_accuracy is None else f"{percent(entry.row.clean_accuracy)} right, "
    return f"{known}{entry.said} flip{'s' * (entry.row.units == 1)}"
