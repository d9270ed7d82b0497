"""`pivotal report`: write the page, figures and tables of a folder again, from the data in the folder."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pivotal.cli import shared_options, terminal
from pivotal.errors import PivotalError

if TYPE_CHECKING:
    from pivotal.report.study import StudyFolder


def report(
    folder: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER", help="The folder of a run, a comparison or a study.", show_default=False
        ),
    ],
    form: Annotated[
        Literal["md", "tex", "csv"] | None,
        shared_options.in_output(
            "For a study: print its tables as Markdown, LaTeX or CSV, and nothing else.", "--format"
        ),
    ] = None,
    json: shared_options.Json = False,
) -> None:
    """Write the report of a folder again; for a study, also print its tables beside the paper's figures.

    This needs no model, because all data is in the folder.
    """
    from pivotal.report.study import StudyFolder

    if json and form is not None:
        raise PivotalError(f"--json and --format {form} both choose what to print. Give only one of them.")
    if StudyFolder.holds(folder):
        _study(StudyFolder.open(folder), form, json)
    elif form is not None:
        raise PivotalError(
            f"--format is for the tables of a study, but {folder} holds no study. Leave it out."
        )
    else:
        _run(folder, json)


def _study(study: StudyFolder, form: Literal["md", "tex", "csv"] | None, json: bool) -> None:
    from dataclasses import asdict

    from pivotal.report.study import write_study
    from pivotal.report.study_files import measured
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


def _run(folder: str, json: bool) -> None:
    from pivotal.jobs.run_folder import RunFolder
    from pivotal.report.comparison import write_comparison
    from pivotal.report.page import write_report

    found = RunFolder.open(folder)
    page = write_comparison(found) if found.kind == "comparison" else write_report(found)
    if json:
        terminal.as_json({"folder": str(found.path), "kind": found.kind, "report": str(page)})
    else:
        terminal.line(f"Written to {found.path}; read {page}")
