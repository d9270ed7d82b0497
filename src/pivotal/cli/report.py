"""`pivotal report`: the page, figures and tables of a folder, made again from what it holds."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pivotal.cli import show
from pivotal.errors import PivotalError

if TYPE_CHECKING:
    from pivotal.report.study import StudyFolder


def report(
    folder: Annotated[
        str,
        typer.Argument(metavar="FOLDER", help="Of a run, of a comparison or of a study.", show_default=False),
    ],
    form: Annotated[
        Literal["md", "tex", "csv"] | None,
        typer.Option(
            "--format",
            help="Print the tables of a study in this form and nothing else: Markdown, LaTeX or CSV.",
        ),
    ] = None,
) -> None:
    """Make the report of a folder again, and print the tables of a study, beside the paper's figures where there are.

    Needs no model: whatever is shown is in the folder.
    """
    from pivotal.report.study import StudyFolder

    if StudyFolder.holds(folder):
        _study(StudyFolder.open(folder), form)
    elif form is not None:
        raise PivotalError(f"--format is for the tables of a study, but {folder} holds none. Leave it out.")
    else:
        _run(folder)


def _study(study: StudyFolder, form: Literal["md", "tex", "csv"] | None) -> None:
    from pivotal.report.study import write_study
    from pivotal.report.study_files import measured
    from pivotal.report.study_tables import study_tables

    if study.loss:
        show.error(study.loss)
    page = write_study(study)
    if form is not None:
        sys.stdout.write(study.tables(form))
        return
    for shown in study_tables(study.recipe, study.rows):
        show.table(shown)
    show.line(f"\n{measured(study.rows)}")
    show.line(f"Written to {study.path}: tables.md, tables.tex, tables.csv; read {page}")


def _run(folder: str) -> None:
    from pivotal.jobs.run_folder import RunFolder
    from pivotal.report.comparison import write_comparison
    from pivotal.report.page import write_report

    found = RunFolder.open(folder)
    page = write_comparison(found) if found.kind == "comparison" else write_report(found)
    show.line(f"Written to {found.path}; read {page}")
