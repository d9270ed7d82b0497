"""report.html: the page of a run, from what its folder holds. The template is `assets/report/run.html`."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from pivotal.errors import PivotalError
from pivotal.files import locked
from pivotal.jobs.run_folder import INTERVENTIONS, REPORT, RUN, RunFolder
from pivotal.questions.minimal_pair import shown
from pivotal.records.intervention import CARD, Intervention
from pivotal.records.summary import Summary
from pivotal.records.traces import PairOutcome, Trace, Traces
from pivotal.records.unit_profiles import UnitProfile, UnitProfiles, Written
from pivotal.report import certified, evidence, tables
from pivotal.report.drawing import BY_LABEL, CHOSEN, OTHERS, REAL, Figure, write_figures
from pivotal.report.figures import figures, histogram
from pivotal.report.next_steps import next_steps
from pivotal.report.tables import Table, activation, counted, percent, signed
from pivotal.report.templates import page
from pivotal.report.trace import Block, blocks, steps_of, unit_cells

_MOST_BESIDE = 200
"""The most interventions of run folders beside this one that are searched for the same units."""
_SETTINGS = ("model", "model_fingerprint", "phenomenon", "data_fingerprint", "split")
_EXAMPLES = 3
"""The sentences of each direction along which a unit is shown."""


def write_report(folder: RunFolder) -> Path:
    """Write report.html and figures/*.svg of a finished run."""
    with locked(folder.path):
        folder = RunFolder.open(folder.path)
        folder.remove_partials()
        summary = folder.summary()
        drawn = figures(summary, folder.history())
        write_figures(folder.path, drawn)
        folder.write_text(REPORT, run_page(folder, summary, drawn))
    return folder.report


def run_page(folder: RunFolder, summary: Summary, drawn: Sequence[Figure]) -> str:
    best, traces, profiles = summary.best_run, folder.traces(), folder.unit_profiles()
    certificate, where = folder.certificate(), folder.path.as_posix()
    verdict, measured = summary.verdict, summary.evidence
    return page(
        "run.html",
        title=f"{summary.phenomenon} in {summary.model}",
        lead=tables.sentence(summary),
        description=f"{counted(best.units, 'unit')}, {percent(best.flip_accuracy)} flipped",
        badge="" if verdict is None else f"Verdict: {verdict.word}",
        summary=summary,
        traces=traces,
        colours={"labels": BY_LABEL, "chosen": CHOSEN, "others": OTHERS, "real": REAL},
        figures=defaultdict(lambda: None, {figure.name: figure for figure in drawn}),
        next_steps=next_steps(summary),
        checks=verdict and evidence.checks_table(verdict),
        signs=evidence.SIGNS,
        text_cost=evidence.text_sentence(measured.text) if measured and measured.text else "",
        effects=measured and evidence.effects_table(measured.effects),
        kept=summary.kept
        and {
            "sentences": evidence.kept_sentences(summary.kept),
            "table": evidence.kept_table(summary.kept, "What had to stay the same"),
        },
        units=evidence.chosen_table(summary),
        has_heads=any(label.startswith("head") for label in best.unit_labels),
        unit_links={p.unit: f"#{unit_anchor(p.unit)}" for p in profiles.profiles} if profiles else {},
        profiles=profiles,
        unit_pages=unit_pages(folder, summary, profiles, traces) if profiles else [],
        coverage=[
            tables.overlap_sentence(summary),
            tables.unseen_sentence(summary),
            tables.skipped_sentence(summary.rejected),
        ],
        sentences=traces and _sentences(traces, [group for group in best.by_group if group], where),
        control=tables.control_sentence(summary),
        certificate=certificate
        and {
            "sentences": [certified.verdict(certificate), *certified.sentences(certificate)],
            "table": certified.units_table(certificate),
        },
        certify=shlex.join(["pivotal", "certify", where]),
        runs=tables.runs_table(summary),
        all_units=tables.units_table(summary),
        snippet=snippet(folder, summary),
        generate=generate_command(folder, summary),
        info=folder.info,
        stated={name: folder.stated(name, str) for name in _SETTINGS},
        search=folder.stated("search", dict),
    )


# -- the sentences ----------------------------------------------------------------------------------------------------


def _sentences(traces: Traces, groups: Sequence[str], where: str) -> dict[str, Any]:
    """The held-out sentences, those with a complete trace first. `groups` are the constructions in the order of the
    pairs file."""
    stored = {trace.pair: trace for trace in traces.traces}
    pairs = sorted(traces.pairs, key=lambda pair: (pair.pair not in stored, pair.pair))
    used = dict.fromkeys(pair.group for pair in traces.pairs if pair.group)
    known = {_known(pair) for pair in traces.pairs}
    command = shlex.join(["pivotal", "trace", where, "--pair"])
    return {
        "wrong": sum(_known(pair) == "wrong" for pair in traces.pairs),
        "groups": [(group, group) for group in groups if group in used] or [(group, group) for group in used],
        "directions": [(label, f"→ {label}") for label in traces.frame.labels],
        "known": [(kind, kind) for kind in ("right", "wrong") if kind in known],
        "command": "" if len(stored) == len(pairs) else command,
        "items": [_item(pair, traces.frame.labels, stored.get(pair.pair)) for pair in pairs],
    }


def _known(pair: PairOutcome) -> str:
    """Whether the untouched model prefers the expected word: right or wrong, or nothing if no word is expected."""
    return "" if not pair.label else "wrong" if pair.label == pair.direction else "right"


def _item(pair: PairOutcome, labels: tuple[str, str], trace: Trace | None) -> dict[str, Any]:
    wanted, words = labels.index(pair.direction), pair.prefix.split()
    cue = pair.cue if pair.cue is not None and pair.cue < len(words) else len(words)
    return {
        "outcome": pair,
        "before": " ".join(words[:cue]),
        "cue": "".join(words[cue : cue + 1]),
        "after": " ".join(words[cue + 1 :]),
        "preferred": shown(pair.words[1 - wanted]),
        "wanted": shown(pair.words[wanted]),
        "known": _known(pair),
        "steps": trace and steps_of(trace),
        "blocks": trace and blocks(trace),
    }


# -- a page for each unit ---------------------------------------------------------------------------------------------


def unit_anchor(unit: str) -> str:
    """The name of a unit's page in the address, such as `unit-hidden-1-278`."""
    return "unit-" + re.sub(r"[^A-Za-z0-9]+", "-", unit)


def unit_pages(
    folder: RunFolder, summary: Summary, profiles: UnitProfiles, traces: Traces | None
) -> list[dict[str, Any]]:
    """What is shown of each unit that has a profile."""
    beside = list(_beside(folder))
    bases = _bases(folder.intervention(summary.best)) if summary.best < folder.runs_saved() else {}
    examples = _examples(traces) if traces else []
    return [
        {
            "profile": profile,
            "anchor": unit_anchor(profile.unit),
            "values": " and ".join(
                f"{activation(v)} for {to}" for to, v in profile.values.items() if v is not None
            ),
            "drop": tables.drop_of(summary.best_run, profile.unit),
            "histogram": histogram(profile, unit_anchor(profile.unit)),
            "written": [_written_table(label, words) for label, words in (profile.written or {}).items()],
            "along": [_along(trace, profile.unit) for trace in examples if profile.unit in trace.frame.units],
            "elsewhere": _elsewhere(summary, profile, bases, beside),
        }
        for profile in profiles.profiles
    ]


def _written_table(label: str, written: Written) -> Table:
    rows = []
    for i in range(max(len(written.up), len(written.down))):
        cells = []
        for side in (written.up, written.down):
            cells += [side[i].word, signed(side[i].logit)] if i < len(side) else ["", ""]
        rows.append(tuple(cells))
    asked = ", ".join(f"“{word.word}” {signed(word.logit)}" for word in written.asked)
    note = f"Words asked about: {asked}." if asked else ""
    return Table(f"→ {label}", ("raised", "logit", "lowered", "logit"), tuple(rows), frozenset({1, 3}), note)


def _examples(traces: Traces) -> list[Trace]:
    """Some traces to each label, of different constructions where there are several, the longest first."""
    examples = []
    for label in traces.frame.labels:
        longest = sorted((t for t in traces.traces if t.direction == label), key=lambda t: -len(t.tokens))
        by_group = {trace.group: trace for trace in reversed(longest)}
        longest.sort(key=lambda trace: by_group[trace.group] is not trace)
        examples += longest[:_EXAMPLES]
    return examples


def _along(trace: Trace, unit: str) -> dict[str, Any]:
    cells = unit_cells(trace, trace.frame.units.index(unit))
    return {
        "trace": trace,
        "steps": steps_of(trace),
        "block": Block("", ("untouched", "with the edit"), cells, signed=True),
    }


def _elsewhere(
    summary: Summary,
    profile: UnitProfile,
    bases: Mapping[str, str],
    beside: Sequence[tuple[str, Intervention]],
) -> Table:
    """The other interventions that set this unit: the other runs of this folder, and the run folders beside it. In
    another basis of its site, the same name means another direction."""
    site = profile.unit.rpartition(":")[0]
    rows = []
    for r, run in enumerate(summary.runs):
        if r != summary.best and profile.unit in run.unit_labels:
            i = run.unit_labels.index(profile.unit)
            values = ", ".join(f"→ {label} {activation(run.values[label][i])}" for label in summary.labels)
            rows.append((f"run {r}", summary.phenomenon, values, str(run.units), percent(run.flip_accuracy)))
    for where, other in beside:
        names = [str(unit) for unit in other.units]
        if profile.unit in names and _bases(other).get(site) == bases.get(site):
            i = names.index(profile.unit)
            values = ", ".join(f"→ {label} {activation(row[i])}" for label, row in other.shown_values.items())
            flipped = other.scores.get("flip_accuracy")
            share = percent(flipped) if isinstance(flipped, int | float) else "–"
            rows.append((where, other.phenomenon, values, str(len(other)), share))
    columns = ("intervention", "phenomenon", "values", "units", "flipped")
    return Table("", columns, tuple(rows), frozenset({3, 4}))


def _bases(intervention: Intervention) -> dict[str, str]:
    """The fingerprints of the bases of an intervention, by site."""
    return {site: basis.card.fingerprint for site, basis in intervention.bases.items()}


def _beside(folder: RunFolder) -> Iterator[tuple[str, Intervention]]:
    """The interventions of the same model in the run folders beside this one. Folders that cannot be read are left
    out: they are not part of this run."""
    fingerprint = folder.settings.get("model_fingerprint")
    try:
        here = folder.path.resolve()
        others = sorted(path.parent for path in here.parent.glob(f"*/{RUN}") if path.parent != here)
    except OSError:
        return
    cards = (card for other in others for card in sorted(other.glob(f"{INTERVENTIONS}/*/{CARD}")))
    for card in islice(cards, _MOST_BESIDE):
        try:
            found = Intervention.load(card.parent)
        except (PivotalError, OSError):
            continue
        if found.model_fingerprint == fingerprint:
            yield f"{card.parents[2].name}, run {card.parent.name}", found


# -- apply and reproduce ----------------------------------------------------------------------------------------------


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
        f"edited = model.intervened(units, direction={example.direction!r}{cue})\n"
        f"print(edited.next_words({example.prefix!r}))"
    )


def generate_command(folder: RunFolder, summary: Summary) -> str:
    example = summary.example
    words = ["pivotal", "generate", folder.path.as_posix(), example.prefix, "--direction", example.direction]
    if summary.steps == "single":
        words += ["--cue", str(example.cue)]
    return shlex.join(words)
