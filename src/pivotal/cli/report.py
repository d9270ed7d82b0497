"""`pivotal report`: write the page, figures and tables of a folder again, from the data in the folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pivotal.cli import shared_options, terminal
from pivotal.errors import PivotalError

if TYPE_CHECKING:
    from pivotal.report.study import StudyFolder


def report(
    folder: Annotated[
        str,
        typer.Argument(metavar="FOLDER", help="The folder of a run or a study.", show_default=False),
    ],
    form: Annotated[
        Literal["md", "tex", "csv"] | None,
        shared_options.in_output(
            "For a study: print its tables as Markdown, LaTeX or CSV, and nothing else.", "--format"
        ),
    ] = None,
    site: Annotated[
        str | None,
        shared_options.in_output(
            "For an atlas: write its site to this folder, and nothing else.", metavar="DIR"
        ),
    ] = None,
    units: Annotated[
        bool,
        shared_options.in_run(
            "For a run: compute again what the pages of the units show. This loads the model.", "--units"
        ),
    ] = False,
    sentences: Annotated[
        str | None,
        shared_options.in_run(
            "The same, with a text of your own instead of the bundled one, a sentence per line; the first "
            "2,000 are read.",
            metavar="FILE",
        ),
    ] = None,
    model: shared_options.RunModel = None,
    device: shared_options.Device = None,
    json: shared_options.Json = False,
) -> None:
    """Write the report of a folder again; for a study, also print its tables beside the paper's figures.

    This needs no model, because all data is in the folder, unless --units or --sentences is given.
    """
    from pivotal.report.study import StudyFolder

    if json and form is not None:
        raise PivotalError(f"--json and --format {form} both choose what to print. Give only one of them.")
    if units or sentences is not None:
        _profile(folder, sentences, model, device)
    elif model is not None or device is not None:
        raise PivotalError("--model and --device are for --units and --sentences. Add one of them.")
    if site is not None:
        _site(folder, site, form, json)
    elif StudyFolder.holds(folder):
        _study(StudyFolder.open(folder), form, json)
    elif form is not None:
        raise PivotalError(
            f"--format is for the tables of a study, but {folder} holds no study. Leave it out."
        )
    else:
        _run(folder, json)


def write_page(folder: str) -> Path:
    """Write the page of a run or a study."""
    from pivotal.jobs.run_folder import RunFolder
    from pivotal.report.page import write_report
    from pivotal.report.study import StudyFolder, write_study

    if StudyFolder.holds(folder):
        return write_study(StudyFolder.open(folder))
    return write_report(RunFolder.open(folder))


_CURE = "Restore the pairs of the run; the pages of its units need its held-out pairs."


def _profile(folder: str, text: str | None, model: str | None, device: str | None) -> None:
    """Compute units.json of a run."""
    from pivotal.cli.run_argument import Saved
    from pivotal.jobs.run_folder import UNITS, RunFolder

    with Saved.locked(folder, RunFolder.open(folder).summary().best) as saved:
        assert saved.folder is not None and saved.run is not None
        question = saved.question(model)
        pairs = question.load_pairs()
        saved.divided(question, pairs, _CURE)
        from pivotal.evidence.unit_profiles import profile_units
        from pivotal.problem.prepare import as_read, problem_of
        from pivotal.problem.text import sentences_of

        sentences = None if text is None else sentences_of(text)
        lm = saved.load_model(question, device, any_model=False, download=model is not None)
        lm = lm.in_bases(saved.folder.bases())
        train, test = saved.divided(question, pairs, _CURE, as_read(question, lm, pairs))
        problem = problem_of(question, lm, train).on(test)
        name = {} if text is None else {"name": Path(text).name}
        profiles = profile_units(saved.intervention, problem, run=saved.run, sentences=sentences, **name)
        saved.folder.write_json(UNITS, profiles)


def _study(study: StudyFolder, form: Literal["md", "tex", "csv"] | None, json: bool) -> None:
    from dataclasses import asdict

    from pivotal.report.study import measured, write_study
    from pivotal.report.study_tables import study_tables

    if study.loss:
        terminal.error(study.loss)
    page = write_study(study)
    if form is not None:
        sys.stdout.write(study.tables(form))
        return
    tables = study_tables(study.recipe, study.rows)
    if json:
        made = [{**asdict(one), "numeric": sorted(one.numeric)} for one in tables]
        terminal.as_json({"folder": str(study.path), "kind": "study", "report": str(page), "tables": made})
        return
    for shown in tables:
        terminal.table(shown)
    terminal.line(f"\n{measured(study.rows)}")
    terminal.line(f"Written to {study.path}: tables.md, tables.tex, tables.csv; read {page}")


def _site(folder: str, out: str, form: str | None, json: bool) -> None:
    from pivotal.report.atlas import write_site
    from pivotal.report.study import StudyFolder

    if form is not None:
        raise PivotalError(f"--site and --format {form} both choose what to write. Give only one of them.")
    study = StudyFolder.open(folder)
    if study.loss:
        terminal.error(study.loss)
    page = write_site(study, Path(out))
    if json:
        terminal.as_json({"folder": folder, "kind": "study", "site": str(page)})
    else:
        terminal.line(f"The site is {page}.")


def _run(folder: str, json: bool) -> None:
    from pivotal.jobs.run_folder import RunFolder

    found, page = RunFolder.open(folder), write_page(folder)
    if json:
        terminal.as_json({"folder": str(found.path), "kind": "run", "report": str(page)})
    else:
        terminal.line(f"Written to {found.path}; read {page}")
