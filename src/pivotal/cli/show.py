"""`pivotal show`: what a folder holds, in the terminal and as a page."""

from __future__ import annotations

import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pivotal.cli import shared_options, terminal
from pivotal.cli.shared_options import argument
from pivotal.errors import PivotalError

if TYPE_CHECKING:
    from pivotal.jobs.run_folder import RunFolder
    from pivotal.records.summary import Summary
    from pivotal.report.study import StudyFolder


@dataclass(frozen=True)
class ShowOptions:
    help_panel: ClassVar[str] = shared_options.OUTPUT

    page: bool = False
    """Write the page and figures again, and for a study its tables as Markdown, LaTeX and CSV."""
    site: Path | None = None
    """For an atlas: write its site to this folder."""


Folder = Annotated[
    str | None,
    argument("The folder of a run or a study. Default: the newest run in runs/.", metavar="[FOLDER]"),
]


def open_page(folder: Folder = None) -> None:
    """Open the page of a run or a study in the browser; write it first if it is missing."""
    from pivotal.jobs.run_folder import REPORT

    path, study = _opened(folder)
    page = path / REPORT
    if not page.is_file():
        page = _write_page(path, study)
    if not webbrowser.open(page.resolve().as_uri()):
        raise PivotalError(f"No browser could be started. Open this file in one: {page}")


@shared_options.takes_options
def show(options: ShowOptions, folder: Folder = None, json: shared_options.Json = False) -> None:
    """Show a run (its question, units, values, scores and files) or the tables of a study.

    `pivotal open` opens its page.
    """
    path, study = _opened(folder)
    if study is None and options.site is not None:
        raise PivotalError(f"--site is for a study, but {path} is not one. Leave it out.")
    written = _write_page(path, study) if options.page else None
    if study is not None:
        _show_study(study, written, options.site, json)
    else:
        _show_run(path, written, json)


def _opened(folder: str | None) -> tuple[Path, StudyFolder | None]:
    """The folder, by default that of the newest run, and the study in it."""
    from pivotal.jobs.runs import newest_run
    from pivotal.report.study import StudyFolder

    path = newest_run() if folder is None else Path(folder)
    return path, StudyFolder.open(path) if StudyFolder.holds(path) else None


def _write_page(path: Path, study: StudyFolder | None) -> Path:
    from pivotal.jobs.run_folder import RunFolder
    from pivotal.report.page import write_report
    from pivotal.report.study import write_study

    return write_report(RunFolder(path)) if study is None else write_study(study.path)


# -- a study --------------------------------------------------------------------------------------------------------


def _show_study(study: StudyFolder, page: Path | None, site: Path | None, json: bool) -> None:
    from dataclasses import asdict

    from pivotal.report.atlas import write_site
    from pivotal.report.study import measured
    from pivotal.report.study_tables import study_tables

    index = None if site is None else write_site(study.path, site)
    tables = study_tables(study.recipe, study.rows)
    if json:
        made = [{**asdict(one), "numeric": sorted(one.numeric)} for one in tables]
        files = {"report": _text(page), "site": _text(index)}
        terminal.as_json({"folder": str(study.path), "kind": "study", **files, "tables": made})
        return
    for shown in tables:
        terminal.table(shown)
    terminal.line(f"\n{measured(study.rows)}")
    if page is not None:
        terminal.line(f"Written to {study.path}: tables.md, tables.tex, tables.csv; read {page}")
    if index is not None:
        terminal.line(f"The site is {index}.")


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


# -- a run ----------------------------------------------------------------------------------------------------------


def _show_run(path: Path, page: Path | None, json: bool) -> None:
    from pivotal.jobs.runs import read_run

    folder, summary = read_run(path, lambda run: (run, run.summary() if run.finished else None))
    files = sorted(entry.name for entry in folder.path.iterdir() if not entry.name.startswith("."))
    if json:
        state = {"folder": str(folder.path), "kind": "run", "finished": summary is not None}
        asked = {"settings": folder.settings, "command": folder.info.command or ""}
        terminal.as_json({**state, **asked, "summary": summary, "report": _text(page), "files": files})
        return
    _print_question(folder, summary)
    if summary is None:
        command = folder.info.command or "repeat its command"
        terminal.line(f"\nThe run is not finished. To resume it: {command}", style="bold")
    else:
        terminal.line("")
        print_result(folder, summary)
    terminal.line(f"\nFiles: {', '.join(files)}", style="dim")
    if page is not None:
        terminal.line(f"\nThe page is {page}")


def _print_question(folder: RunFolder, summary: Summary | None) -> None:
    """The settings of the run, in three lines."""
    from pivotal.jobs.run_folder import RUN
    from pivotal.printing import counted

    settings = folder.settings
    name, runs = folder.stated("search", dict).get("name", "?"), folder.stated("runs", int)
    steps = "at every step" if settings.get("steps") == "every" else "at the cue"
    # Before the end, it may be a share of the pairs, or a file.
    test = summary.pairs.test if summary else settings.get("test")
    held_out = counted(test, "held-out pair") if isinstance(test, int) else "held-out pairs"
    terminal.line(f"{settings.get('phenomenon')} in {settings.get('model')}, units set {steps}", style="bold")
    terminal.line(
        f"Sites {settings.get('sites')}; values {settings.get('values')}; {held_out}, {folder.held_out_by}; "
        f"{counted(runs, 'run')} from seed {settings.get('seed')}"
    )
    terminal.line(f"Search {name}; its settings are in {RUN}", style="dim")


def print_result(folder: RunFolder, summary: Summary, quiet: bool = False) -> None:
    """The result of a finished run: a sentence, then tables unless `quiet`."""
    from pivotal.report import certified, evidence, tables
    from pivotal.report.next_steps import next_steps

    headline, *said = tables.opening(summary)
    shown, verdict, certificate = list[Any](said), summary.verdict, folder.certificate()
    if quiet:
        terminal.result(headline, *shown)
        return
    if verdict is not None and (failed := evidence.failed_table(verdict)).rows:
        shown.append(failed)
    shown.append(tables.units_table(summary, most=12))
    if len(summary.runs) > 1:
        shown.append(tables.runs_table(summary))
    which = f", run {summary.best}" if len(summary.runs) > 1 else ""
    shown.append(tables.shares_table(summary.best_run, f"By construction and direction{which}"))
    if summary.kept is not None:
        shown.append(evidence.kept_table(summary.kept, "What had to stay the same"))
        shown += evidence.kept_sentences(summary.kept)
    shown += [f"\n{tables.control_sentence(summary)}", tables.overlap_sentence(summary)]
    shown += [
        tables.fidelity_sentence(summary.best_run.fidelity),
        evidence.interchange_sentence(summary.evidence.interchange)
        if summary.evidence and summary.values == "interchange"
        else "",
        tables.unseen_sentence(summary),
        evidence.redundancy_sentence(summary.evidence.redundancy if summary.evidence else None),
        tables.clean_sentence(summary),
        tables.skipped_sentence(summary.rejected),
        certificate and certified.verdict(certificate),
        tables.seconds_sentence(summary),
    ]
    terminal.result(headline, *shown)
    terminal.line("\n" + "\n".join(f"Next: {step}" for step in next_steps(summary, certificate)))
