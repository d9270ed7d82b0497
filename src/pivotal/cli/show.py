"""`pivotal show`: one run in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pivotal.cli import shared_options, terminal

if TYPE_CHECKING:
    from pivotal.jobs.run_folder import RunFolder
    from pivotal.records.summary import Summary
    from pivotal.report.tables import Table

FILES = {
    "report.html": "the report",
    "summary.json": "all scores and values",
    "interventions": "the units and values of every run, ready to be applied",
    "traces.json": "held-out sentences, step by step",
    "units.json": "what each unit does in the untouched model",
    "certificate.json": "the certificate",
    "history.jsonl": "the course of the search",
    "checkpoint.pt": "where the search will be resumed",
    "run.json": "question, search, versions and seeds",
}


def show(
    run_folder: Annotated[str, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)],
    json: shared_options.Json = False,
) -> None:
    """Show one run: its question, the units of the best run with their values, the scores and the files."""
    from pivotal.jobs.run_folder import RunFolder
    from pivotal.report import tables

    folder = RunFolder.open(run_folder)
    summary = folder.summary() if folder.finished else None
    if json:
        terminal.as_json(
            {
                "path": str(folder.path),
                "finished": folder.finished,
                "settings": folder.settings,
                "command": folder.info.command or "",
                "summary": summary,
                "files": files_of(folder.path),
            }
        )
        return
    print_question(folder, summary)
    if summary is None:
        command = folder.info.command or "repeat its command"
        terminal.line(f"\nThe run is not finished. To resume it: {command}", style="bold")
    else:
        best = f", run {summary.best}" if len(summary.runs) > 1 else ""
        terminal.line(f"\n{tables.sentence(summary)}", style="bold")
        terminal.table(best_units(summary, f"Units and values{best}"))
        terminal.table(tables.runs_table(summary))
        terminal.table(tables.shares_table(summary.best_run, f"By construction and direction{best}"))
        terminal.line(f"\n{tables.control_sentence(summary)}")
    terminal.table(tables.Table("Files", ("file", ""), tuple(files_of(folder.path).items())))


def best_units(summary: Summary, title: str) -> Table:
    """The units of the best run, what each is set to in each direction, and what is lost without it."""
    from pivotal.report import tables

    run = summary.best_run
    rows = []
    for i, (number, label) in enumerate(zip(run.unit_numbers, run.unit_labels, strict=True)):
        values = [tables.mean_and_spread([run.values[direction][i]]) for direction in summary.labels]
        rows.append((str(number), label, *values, tables.points(tables.drop_of(run, label))))
    columns = ("unit", "site", *(f"→ {label}" for label in summary.labels), "without it")
    return tables.table(title, columns, rows, text=2)


def files_of(path: Path) -> dict[str, str]:
    """The files of a run folder, and what each holds."""
    return {name: what for name, what in FILES.items() if (path / name).exists()}


def print_question(folder: RunFolder, summary: Summary | None) -> None:
    """The settings of the run, in three lines."""
    from pivotal.report.tables import counted

    s = folder.settings
    search, runs = dict(folder.stated("search", dict)), folder.stated("runs", int)
    name = search.pop("name", "?")
    steps = "at every step" if s.get("steps") == "every" else "at the cue"
    wanted = f"{s.get('test') or 'the default number of'} held-out pairs"
    held_out = counted(summary.pairs.test, "held-out pair") if summary else wanted
    terminal.line(f"{s.get('phenomenon')} in {s.get('model')}, units set {steps}", style="bold")
    terminal.line(
        f"Sites {s.get('sites')}; values {s.get('values')}; {held_out}, split by {s.get('split')}; "
        f"{counted(runs, 'run')} from seed {s.get('seed')}"
    )
    terminal.line(f"Search {name}: " + " ".join(f"{k}={v}" for k, v in search.items()), style="dim")


def print_result(summary: Summary, quiet: bool = False) -> None:
    """The result of a finished run: a sentence, then tables unless `quiet`."""
    from pivotal.report import evidence, tables
    from pivotal.report.next_steps import next_steps

    terminal.line(tables.sentence(summary), style="bold")
    if summary.verdict is not None:
        terminal.line(summary.verdict.sentence)
    if quiet:
        return
    if summary.verdict is not None:
        failed = evidence.failed_table(summary.verdict)
        if failed.rows:
            terminal.table(failed)
    terminal.table(tables.units_table(summary, most=12))
    if len(summary.runs) > 1:
        terminal.table(tables.runs_table(summary))
    which = f", run {summary.best}" if len(summary.runs) > 1 else ""
    terminal.table(tables.shares_table(summary.best_run, f"By construction and direction{which}"))
    if summary.kept is not None:
        if (listed := evidence.kept_table(summary.kept, "What had to stay the same")) is not None:
            terminal.table(listed)
        for text in evidence.kept_sentences(summary.kept):
            terminal.line(text)
    terminal.line("")
    terminal.line(tables.control_sentence(summary))
    for said in (
        tables.overlap_sentence,
        tables.unseen_sentence,
        tables.stages_sentence,
        tables.clean_sentence,
    ):
        text = said(summary)
        if text:
            terminal.line(text)
    terminal.line("")
    for step in next_steps(summary):
        terminal.line(f"Next: {step}")
