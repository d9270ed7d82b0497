"""`pivotal show`: what a folder holds, in the terminal and as a page."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pivotal.cli import shared_options, terminal
from pivotal.cli.shared_options import argument, in_output, in_run
from pivotal.errors import PivotalError

if TYPE_CHECKING:
    from pivotal.jobs.run_folder import RunFolder
    from pivotal.records.summary import Summary
    from pivotal.report.study import StudyFolder

_FILES = {
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
    folder: Annotated[str, argument("The folder of a run or a study.", metavar="FOLDER")],
    page: Annotated[
        bool,
        in_output(
            "Write the page and figures again, and the tables of a study as Markdown, LaTeX and CSV.",
            "--page",
        ),
    ] = False,
    browser: Annotated[
        bool, in_output("Open the page in the browser. It is written if it is missing.", "--open")
    ] = False,
    form: Annotated[
        Literal["md", "tex", "csv"] | None,
        in_output("For a study: print its tables as Markdown, LaTeX or CSV, and nothing else.", "--format"),
    ] = None,
    site: Annotated[
        Path | None, in_output("For an atlas: write its site to this folder.", metavar="DIR")
    ] = None,
    units: Annotated[
        bool,
        in_run(
            "For a run: compute the pages of its units again, and write the page. This loads the model.",
            "--units",
        ),
    ] = False,
    sentences: Annotated[
        str | None,
        in_run(
            "The same, with a text of your own instead of the bundled one, a sentence per line; the first "
            "2,000 are read.",
            metavar="FILE",
        ),
    ] = None,
    model: shared_options.RunModel = None,
    device: shared_options.Device = None,
    json: shared_options.Json = False,
) -> None:
    """Show a run (its question, units, values, scores and files) or the tables of a study.

    --page writes the page again from the data in the folder, and --open opens it.
    """
    from pivotal.report.study import StudyFolder

    if json and form is not None:
        raise PivotalError(f"--json and --format {form} both choose what to print. Give only one of them.")
    if units or sentences is not None:
        _profile(folder, sentences, model, device)
    elif model is not None or device is not None:
        raise PivotalError("--model and --device are for --units and --sentences. Add one of them.")
    study = StudyFolder.open(folder) if StudyFolder.holds(folder) else None
    if study is None and (form is not None or site is not None):
        option = "--site" if form is None else "--format"
        raise PivotalError(f"{option} is for a study, but {folder} holds no study. Leave it out.")
    written = _write_page(folder, study, page or units or sentences is not None, browser)
    if study is not None:
        _show_study(study, written, form, site, json)
    else:
        _show_run(folder, written, json)
    if browser and not webbrowser.open(written.resolve().as_uri()):  # type: ignore[union-attr]
        raise PivotalError(f"No browser could be started. Open this file in one: {written}")


def _write_page(folder: str, study: StudyFolder | None, again: bool, needed: bool) -> Path | None:
    """The page, if it was written again, or if it is needed."""
    from pivotal.jobs.run_folder import REPORT, RunFolder
    from pivotal.report.page import write_report
    from pivotal.report.study import write_study

    path = Path(folder) / REPORT
    if again or (needed and not path.is_file()):
        return write_report(RunFolder.open(folder)) if study is None else write_study(study.path)
    return path if needed else None


_CURE = "Restore the pairs of the run; the pages of its units need its held-out pairs."


def _profile(folder: str, text: str | None, model: str | None, device: str | None) -> None:
    """Compute units.json of a run."""
    from pivotal.cli.run_argument import Saved
    from pivotal.jobs.run_folder import UNITS, RunFolder

    best = RunFolder.open(folder).summary().best
    with Saved.locked(folder, best, model=model, device=device) as saved:
        assert saved.folder is not None and saved.run is not None
        pairs = saved.question.load_pairs()
        saved.divided(pairs, _CURE)  # files are read before the model is loaded, which may take long
        from pivotal.evidence.unit_profiles import profile_units
        from pivotal.problem.prepare import problem_of
        from pivotal.problem.text import sentences_of

        sentences = None if text is None else sentences_of(text)
        lm = saved.load_model()
        train, test = saved.divided(pairs, _CURE, lm)
        problem = problem_of(saved.question, lm, train).on(test)
        name = {} if text is None else {"name": Path(text).name}
        profiles = profile_units(saved.intervention, problem, run=saved.run, sentences=sentences, **name)
        saved.folder.write_json(UNITS, profiles)


# -- a study --------------------------------------------------------------------------------------------------------


def _show_study(
    study: StudyFolder,
    page: Path | None,
    form: Literal["md", "tex", "csv"] | None,
    site: Path | None,
    json: bool,
) -> None:
    from dataclasses import asdict

    from pivotal.report.atlas import write_site
    from pivotal.report.study import measured
    from pivotal.report.study_tables import study_tables

    index = None if site is None else write_site(study.path, site)
    if form is not None:
        sys.stdout.write(study.tables(form))
        return
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


def _read_run(path: str) -> tuple[RunFolder, dict[str, str], Summary | None]:
    """The run, what its files are, and its summary if it is finished."""
    from pivotal.jobs.run_folder import RunFolder

    folder = RunFolder.open(path)
    files = {name: what for name, what in _FILES.items() if (folder.path / name).exists()}
    return folder, files, folder.summary() if folder.finished else None


def _show_run(path: str, page: Path | None, json: bool) -> None:
    from pivotal.jobs.run_folder import reread
    from pivotal.report import evidence, tables

    folder, files, summary = reread(_read_run)(path)
    if json:
        terminal.as_json(
            {
                "folder": str(folder.path),
                "kind": "run",
                "finished": summary is not None,
                "settings": folder.settings,
                "command": folder.info.command or "",
                "summary": summary,
                "report": _text(page),
                "files": files,
            }
        )
        return
    _print_question(folder, summary)
    if summary is None:
        command = folder.info.command or "repeat its command"
        terminal.line(f"\nThe run is not finished. To resume it: {command}", style="bold")
    else:
        best = f", run {summary.best}" if len(summary.runs) > 1 else ""
        terminal.result(
            f"\n{tables.sentence(summary)}",
            evidence.chosen_table(summary, f"Units and values{best}"),
            tables.runs_table(summary),
            tables.shares_table(summary.best_run, f"By construction and direction{best}"),
            f"\n{tables.control_sentence(summary)}",
        )
    terminal.table(tables.Table("Files", ("file", ""), tuple(files.items())))
    if page is not None:
        terminal.line(f"\nThe page is {page}")


def _print_question(folder: RunFolder, summary: Summary | None) -> None:
    """The settings of the run, in three lines."""
    from pivotal.report.tables import counted

    settings = folder.settings
    search, runs = dict(folder.stated("search", dict)), folder.stated("runs", int)
    name = search.pop("name", "?")
    steps = "at every step" if settings.get("steps") == "every" else "at the cue"
    wanted = f"{settings.get('test') or 'the default number of'} held-out pairs"
    held_out = counted(summary.pairs.test, "held-out pair") if summary else wanted
    terminal.line(f"{settings.get('phenomenon')} in {settings.get('model')}, units set {steps}", style="bold")
    terminal.line(
        f"Sites {settings.get('sites')}; values {settings.get('values')}; {held_out}, split by "
        f"{settings.get('split')}; {counted(runs, 'run')} from seed {settings.get('seed')}"
    )
    terminal.line(f"Search {name}: " + " ".join(f"{k}={v}" for k, v in search.items()), style="dim")


def print_result(summary: Summary, quiet: bool = False) -> None:
    """The result of a finished run: a sentence, then tables unless `quiet`."""
    from pivotal.report import evidence, tables
    from pivotal.report.next_steps import next_steps

    headline, verdict = tables.sentence(summary), summary.verdict
    shown: list[Any] = [None if verdict is None else verdict.sentence]
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
        tables.unseen_sentence(summary),
        tables.stages_sentence(summary),
        tables.clean_sentence(summary),
    ]
    terminal.result(headline, *shown)
    terminal.line("\n" + "\n".join(f"Next: {step}" for step in next_steps(summary)))
