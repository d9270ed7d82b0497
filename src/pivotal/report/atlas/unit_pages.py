"""The units of a model: a list, and a page for each unit that several phenomena share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from pivotal.records.study import FoundUnit
from pivotal.report.atlas.cross import cross_table
from pivotal.report.atlas.entries import Atlas, Entry, slug
from pivotal.report.atlas.frame import HOME, atlas_page, search_field, within
from pivotal.report.html import Section, paragraph, table_of
from pivotal.report.tables import Table, counted, number, percent


def unit_address(model: str, unit: str) -> str:
    """The page of a unit, relative to the site."""
    return f"units/{slug(model, *unit.split(':'))}.html"


def unit_page(atlas: Atlas, model: str, unit: str) -> str:
    """What a unit is set to in the interventions that share it, and what these interventions do."""
    entries = atlas.shared(model)[unit]
    phenomena = dict.fromkeys(entry.phenomenon for entry in entries)
    links = {within(entry): f"../phenomena/{slug(entry.phenomenon)}.html" for entry in entries}
    links |= {name: f"../{unit_address(model, name)}" for name in atlas.shared(model) if name != unit}
    return atlas_page(
        f"{unit} in {model}",
        f"{counted(len(entries), 'intervention')} set this unit, for {len(phenomena)} phenomena: "
        f"{', '.join(phenomena)}.",
        [
            Section("What it is set to", table_of(_values(entries, unit), links=links)),
            Section("Units that are set with it", table_of(_companions(entries, unit), links=links)),
            Section("What its interventions do to other phenomena", cross_table(entries, atlas.families)),
        ],
        above={**HOME, model: f"../models/{slug(model)}.html"},
    )


def _values(entries: Sequence[Entry], unit: str) -> Table:
    """A row for each intervention and direction."""
    rows = []
    for entry in entries:
        row = entry.row
        for label, value in _found(entry, unit).values.items():
            rows.append(
                (
                    within(entry),
                    entry.standing,
                    label,
                    number(value),
                    percent(row.by_direction.get(label) if row else None),
                    str(len(entry.units)),
                    number(row.kl if row else None),
                )
            )
    return Table(
        "",
        ("phenomenon", "verdict", "flips to", "set to", "flipped", "units", "KL"),
        tuple(rows),
        frozenset(range(3, 7)),
        "Flipped, units and KL are those of the whole intervention, of which this unit is a part.",
    )


def _companions(entries: Sequence[Entry], unit: str) -> Table:
    found: dict[str, list[str]] = {}
    for entry in entries:
        for other in map(str, entry.units):
            if other != unit:
                found.setdefault(other, []).append(within(entry))
    alone = [within(entry) for entry in entries if len(entry.units) == 1]
    rows = [(name, str(len(names)), "; ".join(names)) for name, names in _most_first(found.items())]
    note = f"It is set alone for {', '.join(alone)}." if alone else ""
    return Table("", ("unit", "interventions", "which"), tuple(rows), frozenset({1}), note)


def _most_first(found: Iterable[tuple[str, list[str]]]) -> list[tuple[str, list[str]]]:
    return sorted(found, key=lambda item: -len(item[1]))


def _found(entry: Entry, unit: str) -> FoundUnit:
    return next(one for one in entry.units if str(one) == unit)


def shared_units(atlas: Atlas, model: str) -> str:
    """The units of a model, and the phenomena that each serves; the most shared unit first."""
    units, shared = atlas.units(model), atlas.shared(model)
    fitted = any(len(entry.comparable) < len(entry.units) for entry in atlas.of(model=model))
    note = (
        paragraph(
            "Units of bases that were fitted to the pairs of one phenomenon are not listed: in another phenomenon the "
            "same name means another direction."
        )
        if fitted
        else ""
    )
    if not units:
        return note or paragraph("No unit was found.")
    rows = []
    for unit, entries in units.items():
        names = dict.fromkeys(entry.phenomenon for entry in entries)
        links = ", ".join(f'<a href="../phenomena/{slug(name)}.html">{escape(name)}</a>' for name in names)
        shown = (
            f'<a href="../{unit_address(model, unit)}">{escape(unit)}</a>' if unit in shared else escape(unit)
        )
        rows.append(
            f'<tr id="unit-{slug(unit)}" data-find="{escape(" ".join((unit, *names)).lower())}">'
            f"<th scope=row>{shown}</th><td class=n>{len(names)}</td><td>{links}</td></tr>"
        )
    return (
        search_field("units or phenomena")
        + '<div class=scroll tabindex=0 role=group aria-label="Units"><table><thead><tr><th scope=col>unit</th>'
        "<th scope=col class=n>phenomena</th><th scope=col>which</th></tr></thead><tbody>"
        f"{''.join(rows)}</tbody></table></div>{note}"
    )
