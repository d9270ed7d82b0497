"""The pages of an atlas: one for the whole, and one for each phenomenon, model and shared unit. The templates are in
`assets/report/atlas`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from pivotal.printing import counted
from pivotal.records.study import KNOWN, CrossScore, StudyRow
from pivotal.report.atlas.entries import MEANING, OTHER, STANDINGS, Atlas, Entry, slug
from pivotal.report.atlas.findings import QUIET, findings_of, standings
from pivotal.report.tables import Table, number, percent, points, table
from pivotal.report.templates import page

Downloads = Mapping[str, Sequence[str]]
"""The interventions to download: the names of their files, by the name of the entry."""

_SHADES = 7
_COLUMNS = (
    *("verdict", "accuracy", "flipped", "fidelity", "units", "KL"),
    *("natural", "interchange", "direct", "text", "held"),
)
_HOME = ("The whole atlas", "../index.html")
"""The link above every page but the first."""


def phenomenon_address(phenomenon: str) -> str:
    """The page of a phenomenon, relative to the site."""
    return f"phenomena/{slug(phenomenon)}.html"


def model_address(model: str) -> str:
    """The page of a model, relative to the site."""
    return f"models/{slug(model)}.html"


def unit_address(model: str, unit: str) -> str:
    """The page of a unit, relative to the site."""
    return f"units/{slug(model, *unit.split(':'))}.html"


def _page(template: str, title: str, lead: str, **data: Any) -> str:
    description = f"{title}: a page of an atlas"
    return page(f"atlas/{template}", title=title, lead=lead, description=description, extra="atlas", **data)


def index_page(atlas: Atlas, name: str, about: str, downloads: Downloads) -> str:
    matrix = []
    for phenomenon in atlas.phenomena:
        entries = {entry.column: entry for entry in atlas.of(phenomenon=phenomenon)}
        matrix.append(
            {
                "phenomenon": phenomenon,
                "address": phenomenon_address(phenomenon),
                "words": " ".join([phenomenon, *(entry.standing for entry in entries.values())]).lower(),
                "entries": [entries.get(column) for column in atlas.columns],
            }
        )
    return _page(
        "index.html",
        f"Atlas: {name}",
        about or f"{_phenomena(len(atlas.phenomena))} in {counted(len(atlas.models), 'model')}.",
        facts=[(str(atlas.count(standing)), standing) for standing in STANDINGS if atlas.count(standing)],
        meanings=list(MEANING.items()),
        columns=atlas.columns,
        matrix=matrix,
        findings=findings_of(atlas),
        standings=standings(atlas),
        models=[(model, model_address(model)) for model in atlas.models],
        downloads=counted(len(downloads), "intervention"),
    )


def phenomenon_page(atlas: Atlas, phenomenon: str, downloads: Downloads) -> str:
    entries = atlas.of(phenomenon=phenomenon)
    return _page(
        "phenomenon.html",
        phenomenon,
        f"Which units switch it, in {counted(len({entry.model for entry in entries}), 'model')}.",
        crumbs=[_HOME],
        results=_results(entries, "model", lambda entry: entry.column),
        entries=[_details(atlas, entry, downloads) for entry in entries],
        moved=_moved_by(atlas, phenomenon),
    )


def model_page(atlas: Atlas, model: str) -> str:
    entries = atlas.of(model=model)
    kinds: dict[str, list[Entry]] = {}
    for entry in entries:
        kinds.setdefault(entry.kind, []).append(entry)
    several = len(kinds) > 1
    title = "What each intervention does to the others"
    return _page(
        "model.html",
        model,
        f"{_phenomena(len({entry.phenomenon for entry in entries}))}, and the units that switch them.",
        crumbs=[_HOME],
        results=_results(entries, "phenomenon", lambda entry: entry.within if several else entry.phenomenon),
        units=[_shared_unit(atlas, model, unit) for unit in atlas.units[model]],
        fitted=any(len(entry.comparable) < len(entry.units) for entry in entries),
        # A cross table for each kind of step and each variant, because one for all could not be read.
        crosses=[
            (f"{title}: {kind}" if several else title, cross(of, atlas.families))
            for kind, of in kinds.items()
        ],
    )


def _phenomena(n: int) -> str:
    return counted(n, "phenomenon", "phenomena")


def unit_page(atlas: Atlas, model: str, unit: str) -> str:
    """What a unit is set to in the interventions that share it, and what these interventions do."""
    entries = atlas.shared[model][unit]
    phenomena = dict.fromkeys(entry.phenomenon for entry in entries)
    links = {entry.within: f"../{phenomenon_address(entry.phenomenon)}" for entry in entries}
    return _page(
        "unit.html",
        f"{unit} in {model}",
        f"{counted(len(entries), 'intervention')} set this unit, for {_phenomena(len(phenomena))}: "
        f"{', '.join(phenomena)}.",
        crumbs=[_HOME, (model, f"../{model_address(model)}")],
        links=links,
        set_to=_values(entries, unit),
        cross=cross(entries, atlas.families),
    )


# -- results ----------------------------------------------------------------------------------------------------------


def _results(entries: Sequence[Entry], title: str, named: Callable[[Entry], str]) -> Table:
    return table(
        "",
        (title, *_COLUMNS),
        [(named(entry), entry.standing, *_numbers(entry.row)) for entry in entries],
        text=2,
        note="Accuracy is that of the untouched model. Fidelity: the share of the gap to the prediction after the "
        "counterfactual prefix that is closed at the asked position. Natural: flips with every value inside its "
        "unit's natural range. Interchange: flips with the units' states in the counterfactual prefixes. Direct: the "
        "share of the effect that goes straight to the output. Text: the factor by which the perplexity of ordinary "
        "text grows. Held: the model's accuracy with the units held at their mean.",
    )


def _numbers(row: StudyRow | None) -> tuple[str, ...]:
    if row is None:
        return ("–",) * (len(_COLUMNS) - 1)
    judged = row.judged
    return (
        percent(row.clean_accuracy),
        percent(row.accuracy),
        percent(row.fidelity),
        "–" if row.units is None else str(row.units),
        number(row.kl),
        *(percent(getattr(judged, name, None)) for name in ("natural", "interchange", "direct")),
        "–" if judged is None or judged.text is None else f"{judged.text:.2f}",
        percent(judged.held[1] if judged and judged.held else None),
    )


def _details(atlas: Atlas, entry: Entry, downloads: Downloads) -> dict[str, Any]:
    """What is shown of an entry: one sentence, or its verdict, units and files."""
    if said := _unsearched(entry):
        return {"column": entry.column, "said": said}
    shared = atlas.shared[entry.model]
    labels = list(dict.fromkeys(label for unit in entry.units for label in unit.values))
    rows = [(str(unit), *(number(unit.values.get(label)) for label in labels)) for unit in entry.units]
    return {
        "column": entry.column,
        "said": "",
        "judged": entry.row.judged if entry.row else None,
        "units": table("", ("unit", *(f"set to, {label}" for label in labels)), rows),
        "links": {u: f"../{unit_address(entry.model, u)}" for u in map(str, entry.units) if u in shared},
        "files": [(name, f"../interventions/{entry.name}/{name}") for name in downloads.get(entry.name, ())],
    }


def _unsearched(entry: Entry) -> str:
    """Why there is no intervention; empty if there is one."""
    row = entry.row
    if row is None:
        return "This cell was not run."
    if row.status == KNOWN:
        return (
            f"The model knows the phenomenon: it prefers the expected word in {percent(row.clean_accuracy)} of the "
            "held-out pairs. A search has not been run yet."
        )
    if row.done:
        return ""
    said = "The model does not know the phenomenon" if entry.standing == "unknown" else "The run failed"
    return f"{said}. {row.error or ''}"


def _moved_by(atlas: Atlas, phenomenon: str) -> Table:
    """The interventions found for other phenomena that change this one, the largest change first."""
    found = [
        (entry, score) for entry in atlas.searched for score in entry.cross if score.phenomenon == phenomenon
    ]
    found.sort(key=lambda pair: -pair[1].moved)
    rows = [
        (
            entry.within,
            entry.model,
            percent(score.flipped),
            percent(score.untouched),
            *map(percent, score.edited.values()),
            points(score.moved),
        )
        for entry, score in found[:20]
    ]
    columns = ("intervention of", "model", "flipped", "untouched", "edited, first", "edited, second", "moved")
    note = "Edited: accuracy with the intervention applied in its first and in its second direction."
    return table("", columns, rows, text=2, note=note)


# -- units ------------------------------------------------------------------------------------------------------------


def _shared_unit(atlas: Atlas, model: str, unit: str) -> dict[str, Any]:
    names = dict.fromkeys(entry.phenomenon for entry in atlas.units[model][unit])
    return {
        "name": unit,
        "slug": slug(unit),
        "words": " ".join((unit, *names)).lower(),
        "address": f"../{unit_address(model, unit)}" if unit in atlas.shared[model] else "",
        "phenomena": [(name, f"../{phenomenon_address(name)}") for name in names],
    }


def _values(entries: Sequence[Entry], unit: str) -> Table:
    """A row for each intervention and direction."""
    rows = []
    for entry in entries:
        row = entry.row
        found = next(found for found in entry.units if str(found) == unit)
        for label, value in found.values.items():
            flipped = percent(row.by_direction.get(label) if row else None)
            count, kl = str(len(entry.units)), number(row.kl if row else None)
            rows.append((entry.within, entry.standing, label, number(value), flipped, count, kl))
    columns = ("phenomenon", "verdict", "flips to", "set to", "flipped", "units", "KL")
    note = "Flipped, units and KL are those of the whole intervention, of which this unit is a part."
    return table("", columns, rows, text=3, note=note)


# -- the cross table --------------------------------------------------------------------------------------------------


def cross(entries: Sequence[Entry], families: Mapping[str, str]) -> dict[str, Any] | None:
    """What the interventions do to the other phenomena, or None if that was not tested.

    Rows and columns are sorted by `families`, the families of the phenomena in the order in which they are shown.
    """
    scored = [(entry, {score.phenomenon: score for score in entry.cross}) for entry in entries if entry.cross]
    if not scored:
        return None
    names = dict.fromkeys((*families, *(name for _, scores in scored for name in scores)))
    tested = [name for name in names if any(name in scores for _, scores in scored)]
    shown = [name for name in tested if any(_is_shown(scores.get(name)) for _, scores in scored)]
    place = {name: i for i, name in enumerate(names)}
    scored.sort(key=lambda pair: place.get(pair[0].phenomenon, len(place)))
    several = len({entry.kind for entry, _ in scored}) > 1
    columns = [
        (family, list(group)) for family, group in groupby(shown, lambda name: families.get(name, OTHER))
    ]
    first = {group[0] for _, group in columns[1:]}
    bodies = [
        [
            (
                f"{entry.phenomenon} ({entry.kind})" if several else entry.phenomenon,
                [_cell(scores.get(name), name == entry.phenomenon, name in first) for name in shown],
            )
            for entry, scores in group
        ]
        for _, group in groupby(scored, lambda pair: families.get(pair[0].phenomenon, OTHER))
    ]
    quiet = [name for name in tested if name not in shown]
    return {"families": columns, "bodies": bodies, "quiet": quiet, "least": f"{100 * QUIET:.0f}"}


def _is_shown(score: CrossScore | None) -> bool:
    return score is not None and (score.flipped is not None or score.moved >= QUIET)


def _cell(score: CrossScore | None, own: bool, begins: bool) -> tuple[str, str]:
    """The classes and the text of a cell. `begins` draws the line on the left of a family."""
    look, text = "", "·" * own
    if score is not None and score.flipped is not None:
        look, text = f"f{round(_SHADES * score.flipped)}", f"F{100 * score.flipped:.0f}"
    elif score is not None and _is_shown(score):
        look, text = f"o{round(_SHADES * min(1.0, score.moved / 0.5))}", f"{100 * score.moved:.0f}"
    return f"{look} b".strip() if begins else look, text
