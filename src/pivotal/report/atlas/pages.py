"""The pages of an atlas."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from html import escape

from pivotal.records.study_rows import JudgedRow, StudyRow
from pivotal.report.atlas.cross import cross_table
from pivotal.report.atlas.entries import MEANING, STANDINGS, Atlas, Entry, slug
from pivotal.report.html import Section, definitions, document, paragraph, paragraphs, table_of
from pivotal.report.tables import Table, counted, number, percent, points, table


def index_page(atlas: Atlas, name: str, about: str, downloads: Collection[str], findings: str) -> str:
    lead = about or f"{len(atlas.phenomena)} phenomena in {counted(len(atlas.models), 'model')}."
    models = "".join(
        f'<li><a href="models/{slug(model)}.html">{escape(model)}</a></li>' for model in atlas.models
    )
    return _document(
        f"Atlas: {name}",
        lead,
        [
            Section("Verdicts", _key() + _find("phenomena") + _matrix(atlas)),
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


def phenomenon_page(atlas: Atlas, phenomenon: str, downloads: Collection[str]) -> str:
    entries = atlas.of(phenomenon=phenomenon)
    return _document(
        phenomenon,
        f"Which units switch it, in {counted(len({entry.model for entry in entries}), 'model')}.",
        [
            Section("Results", table_of(_results(entries, "model", lambda entry: entry.column))),
            *(Section(entry.column, _details(entry, downloads)) for entry in entries),
            Section("What moves it", _moved_by(atlas, phenomenon)),
        ],
        home=True,
    )


def model_page(atlas: Atlas, model: str) -> str:
    entries = atlas.of(model=model)
    several = len({(entry.steps, entry.variant) for entry in entries}) > 1
    asked = len({entry.phenomenon for entry in entries})
    return _document(
        model,
        f"The phenomena that were asked of it ({asked}), and the units that switch them.",
        [
            Section(
                "Results", table_of(_results(entries, "phenomenon", _within if several else _phenomenon))
            ),
            Section("Shared units", _shared(atlas, model)),
            Section("What each intervention does to the others", cross_table(entries)),
        ],
        home=True,
    )


def _document(
    title: str,
    lead: str,
    sections: Sequence[Section],
    *,
    facts: Sequence[tuple[str, str]] = (),
    home: bool = False,
) -> str:
    page = document(
        title, lead, sections, description=f"{title}: a page of an atlas", facts=facts, also="atlas"
    )
    page = page.replace("<body>", "<body class=atlas>", 1)
    crumbs = '<p class=crumbs><a href="../index.html">The whole atlas</a></p>\n'
    return page.replace("<header>\n", f"<header>\n{crumbs}", 1) if home else page


def _phenomenon(entry: Entry) -> str:
    return entry.phenomenon


def _within(entry: Entry) -> str:
    return ", ".join(filter(None, (entry.phenomenon, entry.steps, entry.variant)))


# -- the matrix --------------------------------------------------------------------------------------------


def _key() -> str:
    items = "".join(
        f"<li><span class=v-{slug(standing)}>{standing}</span> {escape(MEANING[standing])}</li>"
        for standing in STANDINGS
    )
    return f"<ul class=verdict-key>{items}</ul>"


def _find(what: str) -> str:
    return (
        f"<form class=filters hidden><label class=wide>Find {escape(what)}<input id=find type=search "
        "autocomplete=off></label><p id=found role=status></p></form>"
    )


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
        '<div class=scroll tabindex=0 role=group aria-label="The verdicts"><table class=matrix>'
        f"<thead><tr><th scope=col>phenomenon</th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _cell(entry: Entry | None) -> str:
    if entry is None:
        return "<td></td>"
    link = f"phenomena/{slug(entry.phenomenon)}.html#{Section(entry.column, '').name}"
    said = f"<small>{escape(entry.said)}</small>" if entry.said else ""
    return f'<td><a class=v-{slug(entry.standing)} href="{link}">{entry.standing}{said}</a></td>'


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


def _details(entry: Entry, downloads: Collection[str]) -> str:
    row = entry.row
    if row is None:
        return paragraph("This cell was not run.")
    if not row.done:
        said = "The model does not know the phenomenon" if entry.standing == "unknown" else "The run failed"
        return paragraph(f"{said}. {row.error or ''}")
    parts = [_judgement(row.judged), _units(entry)]
    if entry.name in downloads:
        folder = f"../interventions/{entry.name}"
        parts.append(
            f'<p>Download: <a href="{folder}/card.json" download>card.json</a> and '
            f'<a href="{folder}/values.safetensors" download>values.safetensors</a>. Save both in one folder; '
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


def _units(entry: Entry) -> str:
    labels = list(dict.fromkeys(label for unit in entry.units for label in unit.values))
    rows = [
        (f"{unit.site}:{unit.index}", *(number(unit.values.get(label)) for label in labels))
        for unit in entry.units
    ]
    return table_of(table("", ("unit", *(f"set to, {label}" for label in labels)), rows))


def _moved_by(atlas: Atlas, phenomenon: str) -> str:
    """The interventions found for other phenomena that change this one, the largest change first."""
    found = []
    for entry in atlas.searched:
        judged = entry.row.judged if entry.row else None
        for score in judged.cross if judged else []:
            if score.phenomenon == phenomenon:
                found.append((entry, score))
    if not found:
        return paragraph("No other intervention was asked this phenomenon.")
    found.sort(key=lambda pair: -pair[1].moved)
    rows = [
        (
            _within(entry),
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


def _shared(atlas: Atlas, model: str) -> str:
    units = atlas.units(model)
    if not units:
        return paragraphs("No unit was found.")
    rows = []
    for unit, entries in units.items():
        links = ", ".join(
            f'<a href="../phenomena/{slug(name)}.html">{escape(name)}</a>'
            for name in dict.fromkeys(entry.phenomenon for entry in entries)
        )
        count = len({entry.phenomenon for entry in entries})
        rows.append(
            f'<tr id="unit-{slug(unit)}" data-find="{escape(unit.lower())} '
            f'{escape(" ".join(entry.phenomenon for entry in entries).lower())}"><th scope=row>{escape(unit)}</th>'
            f"<td class=n>{count}</td><td>{links}</td></tr>"
        )
    return (
        _find("units or phenomena")
        + '<div class=scroll tabindex=0 role=group aria-label="Units"><table><thead><tr><th scope=col>unit</th>'
        "<th scope=col class=n>phenomena</th><th scope=col>which</th></tr></thead><tbody>"
        f"{''.join(rows)}</tbody></table></div>"
    )
