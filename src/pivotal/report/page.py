"""report.html: the page of a run, from what its folder holds. The template is `assets/report/run.html`."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pivotal.folders import locked
from pivotal.jobs.run_folder import REPORT, RunFolder
from pivotal.printing import counted
from pivotal.questions.minimal_pair import shown
from pivotal.records.summary import Summary
from pivotal.records.traces import PairOutcome, Trace, Traces
from pivotal.records.unit_profiles import UnitProfile, Written
from pivotal.report import certified, evidence, tables
from pivotal.report.drawing import BY_LABEL, CHOSEN, OTHERS, Figure, write_figures
from pivotal.report.figures import figures, histogram
from pivotal.report.next_steps import next_steps
from pivotal.report.tables import Table, activation, percent, signed
from pivotal.report.templates import page
from pivotal.report.trace import blocks, steps_of

_SETTINGS = ("model", "model_fingerprint", "phenomenon", "data_fingerprint")


def write_report(folder: RunFolder) -> Path:
    """Write report.html and figures/*.svg of a finished run."""
    with locked(folder.path):
        folder = RunFolder(folder.path)
        folder.remove_partials()
        summary = folder.summary()
        drawn = figures(summary, folder.history())
        write_figures(folder.path, drawn)
        folder.write_text(REPORT, run_page(folder, summary, drawn))
    return folder.report


def run_page(folder: RunFolder, summary: Summary, drawn: Sequence[Figure]) -> str:
    best, traces, profiles = summary.best_run, folder.traces(), folder.unit_profiles()
    where, found = folder.path.as_posix(), ["--model", "PATH"] * folder.info.in_memory
    return page(
        "run.html",
        title=f"{summary.phenomenon} in {summary.model}",
        lead=tables.sentence(summary),
        description=f"{counted(best.units, 'unit')}, {percent(best.flip_accuracy)} flipped",
        badge=summary.verdict and evidence.badge(summary.verdict),
        example=tables.example_sentence(summary),
        # The template calls the functions of these modules.
        tables=tables,
        evidence=evidence,
        certified=certified,
        summary=summary,
        traces=traces,
        colours={"labels": BY_LABEL, "chosen": CHOSEN, "others": OTHERS},
        figures=defaultdict(lambda: None, {figure.name: figure for figure in drawn}),
        next_steps=next_steps(summary, certificate := folder.certificate()),
        has_heads=any(label.startswith("head") for label in best.unit_labels),
        profiles=profiles,
        unit_pages=[unit_page(summary, profile) for profile in profiles.profiles] if profiles else [],
        sentences=traces and _sentences(traces, [group for group in best.by_group if group], [where, *found]),
        certificate=certificate,
        certify=shlex.join(["pivotal", "certify", where, *found]),
        snippet=snippet(folder, summary),
        generate=generate_command(folder, summary, found),
        info=folder.info,
        stated={name: folder.stated(name, str) for name in _SETTINGS},
        held_out_by=folder.held_out_by,
        search=folder.stated("search", dict),
    )


# -- the sentences ----------------------------------------------------------------------------------------------------


def _sentences(traces: Traces, groups: Sequence[str], run: Sequence[str]) -> dict[str, Any]:
    """The held-out sentences, those with a complete trace first. `groups` are the constructions in the order of the
    pairs file."""
    stored = {trace.pair: trace for trace in traces.traces}
    pairs = sorted(traces.pairs, key=lambda pair: (pair.pair not in stored, pair.pair))
    used = dict.fromkeys(pair.group for pair in traces.pairs if pair.group)
    known = {_known(pair) for pair in traces.pairs}
    command = f"{shlex.join(['pivotal', 'trace', *run, '--pair'])} NUMBER"
    command += "" if any(any(pair.words) for pair in traces.pairs) else " --words WORD,WORD"
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
        "preferred": shown(pair.words[1 - wanted]) or labels[1 - wanted],
        "wanted": shown(pair.words[wanted]) or labels[wanted],
        "known": _known(pair),
        "steps": trace and steps_of(trace),
        "blocks": trace and blocks(trace),
    }


# -- a page for each unit ---------------------------------------------------------------------------------------------


def unit_anchor(unit: str) -> str:
    """The name of a unit's page in the address, such as `unit-hidden-1-278`."""
    return "unit-" + re.sub(r"[^A-Za-z0-9]+", "-", unit)


def unit_page(summary: Summary, profile: UnitProfile) -> dict[str, Any]:
    """What is shown of a unit that has a profile."""
    values = [f"{activation(value)} for {to}" for to, value in profile.values.items() if value is not None]
    return {
        "profile": profile,
        "anchor": unit_anchor(profile.unit),
        "values": " and ".join(values),
        "drop": tables.drop_of(summary.best_run, profile.unit),
        "histogram": histogram(profile, unit_anchor(profile.unit)),
        "written": [_written_table(label, words) for label, words in (profile.written or {}).items()],
    }


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


# -- apply and reproduce ----------------------------------------------------------------------------------------------


def snippet(folder: RunFolder, summary: Summary) -> str:
    """Python code that applies the units of the best run to a sentence. It runs unchanged, unless the model was in
    memory."""
    example, where = summary.example, folder.path.as_posix()
    named, own = repr(folder.stated("model", str)), folder.info.in_memory
    how = {name: folder.settings.get(name) for name in ("priming", "dtype")}
    loaded = "".join(f", {name}={value!r}" for name, value in how.items() if value is not None)
    note = "  # what you gave to pivotal.find" * own
    cue = f", cue={example.cue}" if summary.steps == "single" else ""
    return (
        "import pivotal\n\n"
        f"model = pivotal.load_model({'module, tokenizer' if own else named}{loaded}){note}\n"
        f"units = pivotal.Intervention.load({where + '/interventions/' + str(summary.best)!r})\n"
        f"print(model.next_words({example.prefix!r}))\n"
        f"edited = model.intervened(units, direction={example.direction!r}{cue})\n"
        f"print(edited.next_words({example.prefix!r}))"
    )


def generate_command(folder: RunFolder, summary: Summary, model: Sequence[str] = ()) -> str:
    example = summary.example
    words = ["pivotal", "generate", folder.path.as_posix(), example.prefix, "--direction", example.direction]
    cue = ["--cue", str(example.cue)] * (summary.steps == "single")
    return shlex.join([*words, *cue, *model])
