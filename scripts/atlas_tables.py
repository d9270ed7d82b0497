"""The tables of docs/atlas-findings.md; scripts/atlas_findings.py puts them into the page."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from statistics import fmean, median
from typing import get_args

from phenomenon_families import FAMILIES, family_of
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


def by_steps(atlas: Atlas) -> dict[str, dict[str, list[Entry]]]:
    """The same entries, by the kind of step and then by model."""
    found: dict[str, dict[str, list[Entry]]] = defaultdict(dict)
    for model, steps, entries in groups(atlas):
        found[steps][model] = entries
    return found


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
    """How many cells of each model have which standing. Standings that no cell has are left out, except verdicts."""
    shown = [word for word in STANDINGS if word in VERDICTS or atlas.count(word)]
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


def layers_table(atlas: Atlas) -> str:
    """Where the units are: in the first layer, in the lower and the upper half of those between, or in the last."""
    tops = layers(atlas)
    rows = []
    for model, steps, entries in groups(atlas):
        last = tops[model]
        found = [layer_of(unit.site)[1] for entry in entries for unit in entry.units]
        between = [layer for layer in found if 0 < layer < last]
        lower = sum(2 * layer < last for layer in between)
        alone = sum(len({unit.site for unit in entry.units}) == 1 for entry in entries)
        shares = (found.count(0), lower, len(between) - lower, found.count(last) if last else 0)
        rows.append(
            (
                *(model, steps, last + 1, len(found)),
                *("–" if last < 2 and i in (1, 2) else percent(n / len(found)) for i, n in enumerate(shares)),
                f"{alone} of {len(entries)}",
            )
        )
    columns = (
        *("model", "steps", "layers", "units", "first layer", "lower half", "upper half", "last layer"),
        "all in one layer",
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


def checks_table(atlas: Atlas) -> str:
    """How many interventions fail each check. Checks that none fails are left out."""
    failed = {
        (model, steps): Counter(
            check for entry in entries if entry.row and entry.row.judged for check in entry.row.judged.failed
        )
        for model, steps, entries in groups(atlas)
    }
    checks = [check for check, _ in sum(failed.values(), Counter()).most_common()]
    rows = [
        (model, steps, len(entries), *(failed[model, steps][check] for check in checks))
        for model, steps, entries in groups(atlas)
    ]
    return lines(("model", "steps", "searched", *checks), rows)


def families_table(atlas: Atlas) -> str:
    """The mean flips of each family, with the number of its phenomena that were searched; a table for each kind of
    step."""
    tables = []
    for steps, models in by_steps(atlas).items():
        rows = []
        for family in FAMILIES:
            mine = [
                [accuracy(entry) for entry in entries if family_of(entry.phenomenon) == family]
                for entries in models.values()
            ]
            if any(mine):
                flips = (f"{percent(fmean(one))} ({len(one)})" if one else "–" for one in mine)
                rows.append((family, *flips))
        tables.append(lines((f"family, {steps} step", *models), rows, text=1))
    return "\n\n".join(tables)


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


def units_shared_table(atlas: Atlas) -> str:
    """The units that the most phenomena share."""
    rows = []
    for model, steps, entries in groups(atlas):
        found: dict[str, list[str]] = defaultdict(list)
        for entry in entries:
            for unit in entry.comparable:
                found[str(unit)].append(entry.phenomenon)
        most = sorted(found.items(), key=lambda item: -len(item[1]))[:3]
        for shared, names in ((unit, names) for unit, names in most if len(names) > 1):
            kinds = Counter(family_of(name) for name in names)
            said = "; ".join(f"{family} {n}" for family, n in kinds.most_common())
            rows.append((model, steps, f"`{shared}`", said, len(names)))
    return lines(("model", "steps", "unit", "families", "phenomena"), rows, text=4)


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


def moved_elsewhere(atlas: Atlas, entry: Entry) -> list[bool]:
    """For each of them, whether it changes by more than 5 points."""
    return [moved > QUIET for moved in changes_elsewhere(atlas, entry)]


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
            if away := changes_elsewhere(atlas, entry):
                found.append((sum(m > QUIET for m in away) / len(away), fmean(away), entry))
        found.sort(key=lambda one: one[:2])
        for loud, moved, entry in (*found[:2], *found[2:][-1:]):
            rows.append(
                (
                    model,
                    steps,
                    f"`{entry.phenomenon}`",
                    percent(accuracy(entry)),
                    percent(loud),
                    f"{100 * moved:.1f}",
                )
            )
    return lines(("model", "steps", "intervention of", "flips", "others moved", "mean"), rows, text=3)


def blimp_table(atlas: Atlas) -> str:
    """The paradigms of BLiMP that some model knows, with a table for each kind of step: what the untouched model gets
    right, what its units flip, and how many units they are."""
    paradigms = [name for name in atlas.phenomena if name.startswith("BLiMP ")]
    cells = {(entry.phenomenon, entry.model, entry.steps): entry for entry in atlas.entries}
    kinds = {
        steps: [model for model, entries in models.items() if any(e.phenomenon in paradigms for e in entries)]
        for steps, models in by_steps(atlas).items()
    }
    unknown = [
        name
        for name in paradigms
        if all(cells[name, m, steps].standing == "unknown" for steps, models in kinds.items() for m in models)
    ]
    tables = []
    for steps, models in kinds.items():
        if not models:
            continue
        rows = [
            (_paradigm(name), *(_in_short(cells[name, model, steps]) for model in models))
            for name in paradigms
            if name not in unknown
        ]
        tables.append(lines((f"paradigm, {steps} step", *models), rows, text=1))
    if unknown and tables:
        tables.append(f"None of these models knows {', '.join(map(_paradigm, unknown))}.")
    return "\n\n".join(tables)


def _paradigm(name: str) -> str:
    return f"`{name.removeprefix('BLiMP ')}`"


def seconds_table(atlas: Atlas) -> str:
    """The time of the searched cells, by machine."""
    rows = []
    for model, steps, entries in groups(atlas):
        by_machine: dict[str, list[float]] = defaultdict(list)
        for row in (entry.row for entry in entries if entry.row and entry.row.total_seconds):
            by_machine[row.machine or "–"].append(row.total_seconds or 0.0)
        for machine, seconds in by_machine.items():
            shown = (median(seconds), min(seconds), max(seconds), sum(seconds) / 60)
            rows.append((model, steps, machine, len(seconds), *(f"{figure:.0f}" for figure in shown)))
    return lines(
        ("model", "steps", "machine", "cells", "median s", "least", "most", "total min"), rows, text=3
    )


TABLES: dict[str, Callable[[Atlas], str]] = {
    "run": run_table,
    "units": units_table,
    "layers": layers_table,
    "cost": cost_table,
    "checks": checks_table,
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
    """What the untouched model gets right, the flips, and the number of units."""
    if entry.row is None or not entry.row.done:
        return entry.standing
    return f"{percent(entry.row.clean_accuracy)} / {percent(accuracy(entry))} ({len(entry.units)})"
