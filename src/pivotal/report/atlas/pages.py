"""The pages of an atlas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape

from pivotal.records.study import KNOWN, JudgedRow, StudyRow
from pivotal.report.atlas.cross import cross_table
from pivotal.report.atlas.entries import MEANING, STANDINGS, Atlas, Entry, Standing, slug
from pivotal.report.atlas.frame import HOME, atlas_page, search_field, within
from pivotal.report.atlas.unit_pages import shared_units, unit_address
from pivotal.report.html import Section, definitions, paragraph, table_of
from pivotal.report.tables import Table, counted, number, percent, points, table

Downloads = Mapping[str, Sequence[str]]
"""The interventions to download: the names of their files, by the name of the entry."""


def index_page(atlas: Atlas, name: str, about: str, downloads: Downloads, findings: str) -> str:
    lead = about or f"{len(atlas.phenomena)} phenomena in {counted(len(atlas.models), 'model')}."
    models = "".join(
        f'<li><a href="models/{slug(model)}.html">{escape(model)}</a></li>' for model in atlas.models
    )
    return atlas_page(
        f"Atlas: {name}",
        lead,
        [
            Section("Verdicts", _key() + search_field("phenomena") + _matrix(atlas)),
            Section("What it says", findings),
            Section("Models", f"<ul>{models}</ul>"),
            Section(
                "Downloads",
                paragraph(
                    f"{counted(len(downloads), 'intervention')} to download, each from the page of its phenomenon: "
                    "card.json and values.safetensors. The commands evaluate, generate and trace of pivotal read them."
                ),
            ),
        ],
        facts=[(str(atlas.count(standing)), standing) for standing in STANDINGS if atlas.count(standing)],
    )


def phenomenon_page(atlas: Atlas, phenomenon: str, downloads: Downloads) -> str:
    entries = atlas.of(phenomenon=phenomenon)
    return atlas_page(
        phenomenon,
        f"Which units switch it, in {counted(len({entry.model for entry in entries}), 'model')}.",
        [
            Section("Results", table_of(_results(entries, "model", lambda entry: entry.column))),
            *(Section(entry.column, _details(atlas, entry, downloads)) for entry in entries),
            Section("What moves it", _moved_by(atlas, phenomenon)),
        ],
        above=HOME,
    )


def model_page(atlas: Atlas, model: str) -> str:
    entries = atlas.of(model=model)
    several = len({(entry.steps, entry.variant) for entry in entries}) > 1
    asked = len({entry.phenomenon for entry in entries})
    return atlas_page(
        model,
        f"The phenomena that were asked of it ({asked}), and the units that switch them.",
        [
            Section("Results", table_of(_results(entries, "phenomenon", within if several else _phenomenon))),
            Section("Shared units", shared_units(atlas, model)),
            *_cross_sections(atlas, entries),
        ],
        above=HOME,
    )


def _cross_sections(atlas: Atlas, entries: Sequence[Entry]) -> list[Section]:
    """A cross table for each kind of step and each variant, because one for all could not be read."""
    kinds: dict[str, list[Entry]] = {}
    for entry in entries:
        kinds.setdefault(", ".join(filter(None, (entry.steps, entry.variant))), []).append(entry)
    title = "What each intervention does to the others"
    return [
        Section(f"{title}: {kind}" if len(kinds) > 1 else title, cross_table(mine, atlas.families))
        for kind, mine in kinds.items()
    ]


def _phenomenon(entry: Entry) -> str:
    return entry.phenomenon


# -- the matrix --------------------------------------------------------------------------------------------


def _key() -> str:
    items = "".join(
        f"<li><span class={_style(standing)}>{standing}</span> {escape(MEANING[standing])}</li>"
        for standing in STANDINGS
    )
    return f"<ul class=verdict-key>{items}</ul>"


def _style(standing: Standing) -> str:
    """The class of the style sheet."""
    return f"v-{standing.replace(' ', '-')}"


def _matrix(atlas: Atlas) -> str:
    head = "".join(f"<th scope=col>{escape(column)}</th>" for column in atlas.columns)
    rows = []
    for phenomenon in atlas.phenomena:
        entries = {entry.column: entry for entry in atlas.of(phenomenon=phenomenon)}
        cells = "".join(_cell(entries.get(column)) for column in atlas.columns)
        words = " ".join([phenomenon, *(entry.standing for entry in entries.values())]).lower()
        rows.append(
            f'<tr data-find="{escape(words)}"><th scope=row><a href="phenomena/{slug(phenomenon)}.html">'
            f"{escape(phenomenon)}</a></th>{cells}</tr>"
        )
    return (
        '<div class="scroll tall" tabindex=0 role=group aria-label="The verdicts"><table class=matrix>'
        f"<thead><tr><th scope=col>phenomenon</th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _cell(entry: Entry | None) -> str:
    if entry is None:
        return "<td></td>"
    link = f"phenomena/{slug(entry.phenomenon)}.html#{Section(entry.column, '').name}"
    said = f"<small>{escape(entry.said)}</small>" if entry.said else ""
    return f'<td><a class={_style(entry.standing)} href="{link}">{entry.standing}{said}</a></td>'


# -- results -----------------------------------------------------------------------------------------------


_COLUMNS = ("verdict", "accuracy", "flipped", "units", "KL", "natural", "interchange", "direct", "text")


def _results(entries: Sequence[Entry], title: str, named: Callable[[Entry], str]) -> Table:
    return table(
        "",
        (title, *_COLUMNS),
        [(named(entry), entry.standing, *_figures(entry.row)) for entry in entries],
        text=2,
        note="Accuracy is that of the untouched model. Natural: flips with every value inside its unit's natural "
        "range. Interchange: flips with the units' states in the counterfactual prefixes. Direct: the share of the "
        "effect that goes straight to the output. Text: the factor by which the perplexity of ordinary text grows.",
    )


def _figures(row: StudyRow | None) -> tuple[str, ...]:
    if row is None:
        return ("–",) * (len(_COLUMNS) - 1)
    judged = row.judged
    return (
        percent(row.clean_accuracy),
        percent(row.accuracy),
        "–" if row.units is None else str(row.units),
        number(row.kl),
        percent(None if judged is None else judged.natural),
        percent(None if judged is None else judged.interchange),
        percent(None if judged is None else judged.direct),
        "–" if judged is None or judged.text is None else f"{judged.text:.2f}",
    )


def _details(atlas: Atlas, entry: Entry, downloads: Downloads) -> str:
    row = entry.row
    if row is None:
        return paragraph("This cell was not run.")
    if row.status == KNOWN:
        share = percent(row.clean_accuracy)
        return paragraph(
            f"The model knows the phenomenon: it prefers the expected word in {share} of the held-out pairs. A search "
            "has not been run yet."
        )
    if not row.done:
        said = "The model does not know the phenomenon" if entry.standing == "unknown" else "The run failed"
        return paragraph(f"{said}. {row.error or ''}")
    parts = [_judgement(row.judged), _units(atlas, entry)]
    if entry.name in downloads:
        folder = f"../interventions/{entry.name}"
        files = downloads[entry.name]
        listed = ", ".join(f'<a href="{folder}/{name}" download>{name}</a>' for name in files)
        parts.append(
            f"<p>Download: {listed}. Save them in one folder; "
            "<code>pivotal evaluate FOLDER QUESTION</code> applies it.</p>"
        )
    return "".join(parts)


def _judgement(judged: JudgedRow | None) -> str:
    if judged is None:
        return paragraph("No evidence was collected.")
    p_value = "" if judged.p_value is None else f"{judged.p_value:.2g}"
    return definitions(
        [
            ("verdict", judged.verdict),
            ("failed", ", ".join(judged.failed)),
            ("not checked", ", ".join(judged.missing)),
            ("random sets", f"p = {p_value}" if p_value else ""),
        ]
    )


def _units(atlas: Atlas, entry: Entry) -> str:
    shared = atlas.shared(entry.model)
    links = {
        name: f"../{unit_address(entry.model, name)}" for name in map(str, entry.units) if name in shared
    }
    labels = list(dict.fromkeys(label for unit in entry.units for label in unit.values))
    rows = [(str(unit), *(number(unit.values.get(label)) for label in labels)) for unit in entry.units]
    return table_of(table("", ("unit", *(f"set to, {label}" for label in labels)), rows), links=links)


def _moved_by(atlas: Atlas, phenomenon: str) -> str:
    """The interventions found for other phenomena that change this one, the largest change first."""
    found = [
        (entry, score) for entry in atlas.searched for score in entry.cross if score.phenomenon == phenomenon
    ]
    if not found:
        return paragraph("No other intervention was tested on this phenomenon.")
    found.sort(key=lambda pair: -pair[1].moved)
    rows = [
        (
            within(entry),
            entry.model,
            percent(score.flipped),
            percent(score.untouched),
            *[f"{percent(share)}" for share in score.edited.values()],
            points(score.moved),
        )
        for entry, score in found[:20]
    ]
    columns = ("intervention of", "model", "flipped", "untouched", "edited, first", "edited, second", "moved")
    return table_of(
        table(
            "",
            columns,
            rows,
            text=2,
            note="Edited: accuracy with the intervention applied in its first and in its second direction.",
        )
    )
