"""report.html: one file, no network, for a screen of any size, light or dark."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from html import escape
from pathlib import Path

from pivotal.files import locked
from pivotal.jobs.run_folder import REPORT, RunFolder
from pivotal.records.certificate import Certificate
from pivotal.records.evidence import Verdict
from pivotal.records.summary import PairCounts, Summary
from pivotal.records.unit_profiles import UnitProfiles
from pivotal.report import certified, evidence, glossary, sentences, tables, units
from pivotal.report.drawing import BY_LABEL, CHOSEN, OTHERS, REAL, Figure, write_figures
from pivotal.report.figures import figures
from pivotal.report.html import (
    Section,
    code,
    definitions,
    document,
    figure_of,
    paragraph,
    paragraphs,
    suggestions,
    table_of,
)
from pivotal.report.next_steps import next_steps
from pivotal.report.unit_pages import unit_sections

KEPT = "What had to stay the same"

_VERDICT_NOTE = (
    "“Decide” needs every check. “Switch”: the model knows the phenomenon, and the units flip it reliably and more "
    "often than random sets do. “Nudge”: more often than most random sets (p ≤ 0.05), but not reliably, not clearly "
    "more often, or too few random sets to tell. “No evidence”: anything else."
)


def write_report(folder: RunFolder) -> Path:
    """Write report.html and figures/*.svg of a finished run."""
    with locked(folder.path):
        folder = RunFolder.open(folder.path)
        summary, history = folder.summary(), folder.history()
        drawn = figures(summary, history)
        write_figures(folder.path, drawn)
        folder.write_text(REPORT, page(folder, summary, {figure.name: figure for figure in drawn}))
    return folder.report


def page(folder: RunFolder, summary: Summary, drawn: dict[str, Figure]) -> str:
    best, traces, profiles = summary.best_run, folder.traces(), folder.unit_profiles()

    def figure(name: str) -> str:
        return figure_of(drawn[name]) if name in drawn else ""

    groups = [group for group in best.by_group if group]
    sections = [
        *_evidence(summary, figure),
        *_kept(summary),
        Section("The units", _units(folder, summary, profiles) + figure("values")),
        Section("Where it works", figure("by-construction")
                + paragraphs(
                    tables.overlap_sentence(summary),
                    tables.unseen_sentence(summary),
                    tables.skipped_sentence(summary.rejected),
                )),
        Section("Sentence by sentence",
                sentences.listed(traces, groups) if traces else paragraph(sentences.NONE_KEPT)),
        Section("Is it more than chance?", paragraph(tables.control_sentence(summary)) + figure("control")),
        Section("Is every unit needed?", figure("drop-one") or paragraph("There is only one unit.")),
        Section("Could fewer or others do it?", _certificate(folder, folder.certificate())),
        *_all_runs(summary, figure),
        Section("How it was learned",
                figure("learning") + figure("stages") or paragraph("This search keeps no learning curves.")),
        Section("Apply it", _apply(folder, summary)),
        Section("Reproduce", _reproduce(folder, summary)),
        Section("Glossary", glossary.terms()),
        *(unit_sections(folder, summary, profiles) if profiles else ()),
    ]  # fmt: skip
    return document(
        f"{summary.phenomenon} in {summary.model}",
        tables.sentence(summary),
        sections,
        description=f"{tables.counted(best.units, 'unit')}, {tables.percent(best.flip_accuracy)} flipped",
        facts=_facts(summary),
        badge="" if summary.verdict is None else f"Verdict: {summary.verdict.word}",
        key=_key(summary),
        data=sentences.data(traces, folder) if traces else None,
    )


# -- parts of the page -------------------------------------------------------------------------------------


def _evidence(summary: Summary, figure: Callable[[str], str]) -> list[Section]:
    """The verdict with its checks, and what the intervention costs. An early version made runs without them."""
    if summary.verdict is None or summary.evidence is None:
        return []
    effects = evidence.effects_table(summary.evidence.effects)
    return [
        Section(
            "The verdict",
            paragraph(summary.verdict.sentence)
            + suggestions(next_steps(summary))
            + checks_of(summary.verdict)
            + paragraph(_VERDICT_NOTE),
        ),
        Section(
            "Are the values natural?",
            paragraphs(*evidence.natural_sentences(summary, summary.evidence)) + figure("natural"),
        ),
        Section(
            "What else it changes",
            figure("cost")
            + paragraphs(*evidence.cost_sentences(summary, summary.evidence))
            + figure("dose")
            + ("" if effects is None else table_of(effects)),
        ),
    ]


def _kept(summary: Summary) -> list[Section]:
    if summary.kept is None:
        return []
    effects = evidence.kept_table(summary.kept, KEPT)
    return [
        Section(
            KEPT,
            paragraphs(*evidence.kept_sentences(summary.kept))
            + ("" if effects is None else table_of(effects, title=False)),
        )
    ]


def checks_of(verdict: Verdict) -> str:
    """The checks of a verdict as a table, each with a sign of its outcome."""
    rows = []
    for name, outcome, found in evidence.checks_table(verdict).rows:
        look, sign = outcome.replace(" ", "-"), evidence.SIGNS[outcome]
        rows.append(
            f"<tr><th scope=row>{escape(name)}</th><td class={look}><span aria-hidden=true>{sign}</span> "
            f"{escape(outcome)}</td><td>{escape(found)}</td></tr>"
        )
    body = "\n".join(rows)
    return (
        '<div class=scroll tabindex=0 role=group aria-label="Checks"><table class=checks><thead><tr>'
        "<th scope=col>check</th><th scope=col>outcome</th><th scope=col>found</th></tr></thead>"
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def _units(folder: RunFolder, summary: Summary, profiles: UnitProfiles | None) -> str:
    shown = profiles.profiles if profiles else ()
    links = {one.unit: f"#{units.anchor(one.unit)}" for one in shown}
    said = table_of(units.chosen_table(summary), title=False, links=links)
    if profiles is None:
        command = shlex.join(["pivotal", "report", folder.path.as_posix(), "--units"])
        return said + paragraph(units.note(summary)) + paragraph(units.MISSING) + code(command + "\n")
    some = "" if len(shown) == profiles.units else f"The first {len(shown)} units have one. "
    return said + paragraph(f"Follow a unit’s link to its own page. {some}{units.note(summary)}")


def _all_runs(summary: Summary, figure: Callable[[str], str]) -> list[Section]:
    """The other runs. The rest of the page is about one run, so there is no such section for a single run."""
    if len(summary.runs) == 1:
        return []
    chosen = paragraph(f"This page is about run {summary.best}. These are all runs that were made.")
    shown = table_of(tables.runs_table(summary), title=False) + figure("accuracy-kl")
    found = table_of(tables.units_table(summary)) + paragraph(
        "Every unit that a run found, with means over those runs. ● marks the units of the chosen run."
    )
    return [Section("All runs", chosen + shown + found)]


def _facts(summary: Summary) -> list[tuple[str, str]]:
    swap = None if summary.evidence is None else summary.evidence.swap
    beside = f"KL (a real change of the cue: {tables.number(swap.kl)})" if swap is not None else "KL"
    facts = [
        (tables.percent(summary.flip_accuracy), "flipped"),
        (str(summary.units), f"of {summary.all_units:,} units"),
        (tables.number(summary.kl), beside),
        (tables.percent(summary.clean_accuracy), _untouched(summary)),
    ]
    return [fact for fact in facts if fact[0] != "–"]


def _key(summary: Summary) -> list[tuple[str, str]]:
    key = [(colour, label) for colour, label in zip(BY_LABEL, summary.labels, strict=True)]
    several, random = len(summary.runs) > 1, bool(summary.controls.sets)
    others = " and ".join(["other runs"] * several + ["random sets"] * random)
    key.append((CHOSEN, "these units" if not several else f"these units (run {summary.best})"))
    if others:
        key.append((OTHERS, others))
    if summary.evidence is not None and summary.evidence.swap is not None:
        key.append((REAL, "a real change of the cue"))
    return key


def _untouched(summary: Summary) -> str:
    asked = summary.pairs.test
    labelled = asked if summary.labelled is None else summary.labelled
    return "right when untouched" + ("" if labelled == asked else f", of {labelled:,} labelled pairs")


def _certificate(folder: RunFolder, certificate: Certificate | None) -> str:
    if certificate is None:
        command = shlex.join(["pivotal", "certify", folder.path.as_posix()])
        return paragraph(
            "This run has no certificate yet. This command tries swaps and smaller sets, and writes one:"
        ) + code(command + "\n")
    said = paragraphs(certified.verdict(certificate), *certified.sentences(certificate))
    return said + table_of(certified.units_table(certificate))


def _apply(folder: RunFolder, summary: Summary) -> str:
    return (
        paragraph("In Python:")
        + code(snippet(folder, summary))
        + paragraph("On the command line:")
        + code(generate_command(folder, summary))
    )


def snippet(folder: RunFolder, summary: Summary) -> str:
    """Python code that applies the units of the best run to a sentence. It runs unchanged."""
    example, where = summary.example, folder.path.as_posix()
    priming = folder.settings.get("priming")
    model = repr(folder.stated("model", str)) + (f", priming={priming!r}" if priming is not None else "")
    cue = f", cue={example.cue}" if summary.steps == "single" else ""
    return (
        "import pivotal as pv\n\n"
        f"model = pv.load_model({model})\n"
        f"units = pv.Intervention.load({where + '/interventions/' + str(summary.best)!r})\n"
        f"print(model.next_words({example.prefix!r}))\n"
        f"with model.intervened(units, direction={example.direction!r}{cue}):\n"
        f"    print(model.next_words({example.prefix!r}))\n"
    )


def generate_command(folder: RunFolder, summary: Summary) -> str:
    example = summary.example
    words = ["pivotal", "generate", folder.path.as_posix(), example.prefix, "--direction", example.direction]
    if summary.steps == "single":
        words += ["--cue", str(example.cue)]
    return shlex.join(words) + "\n"


def _reproduce(folder: RunFolder, summary: Summary) -> str:
    work = f"{summary.forward_nodes:,} nodes forward, {summary.backward_nodes:,} backward"
    spent = summary.seconds
    parts = (
        f"{spent.load:,.0f} s to load, {spent.search:,.0f} s to search, {spent.evaluate:,.0f} s to evaluate"
    )
    more = [("work", work), ("time", f"{spent.total:,.0f} s: {parts}")]
    return reproduce(folder, summary.pairs, {"search": folder.stated("search", dict)}, more)


def reproduce(
    folder: RunFolder,
    pairs: PairCounts,
    searches: Mapping[str, Mapping[str, object]],
    more: Sequence[tuple[str, str]] = (),
) -> str:
    """The command and the settings of a run."""
    info, stated = folder.info, partial(folder.stated, kind=str)
    dropped = f", {pairs.dropped:,} in neither" if pairs.dropped else ""
    rows = [
        ("model", f"{stated('model')} · {stated('model_fingerprint')}"),
        ("pairs", f"{stated('phenomenon')} · {stated('data_fingerprint')} · {pairs.train:,} to train, "
                  f"{pairs.test:,} held out{dropped} ({stated('split')})"),
        ("seeds", ", ".join(map(str, info.seeds or ()))),
        *((label, " ".join(f"{k}={value}" for k, value in options.items())) for label, options in searches.items()),
        *more,
        ("versions", ", ".join(f"{name} {version}" for name, version in info.versions.items())),
        ("device", info.device or ""),
        ("started", info.started),
    ]  # fmt: skip
    command = info.command or "This run was started from Python; run.json has its settings."
    return code(command + "\n") + definitions(rows)
