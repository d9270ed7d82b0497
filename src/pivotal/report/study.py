"""The report of a study, and its tables as files. They are made from the folder, without a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from pivotal.files import write_text
from pivotal.jobs.run_files import REPORT
from pivotal.jobs.study.folder import RECIPE, STUDY
from pivotal.jobs.study.recipe import Recipe, read_recipe
from pivotal.records import serial
from pivotal.records.study import StudyRecord
from pivotal.records.study_rows import RESULTS, Results, StudyRow, read_results
from pivotal.report.drawing import Figure, write_figures
from pivotal.report.html import Section, code, definitions, document, figure_of, paragraphs, table_of
from pivotal.report.study_cells import cells
from pivotal.report.study_figures import study_figures
from pivotal.report.study_files import measured, study_csv, study_latex, study_markdown
from pivotal.report.study_tables import study_tables
from pivotal.report.tables import counted

Format = Literal["md", "tex", "csv"]


@dataclass(frozen=True)
class StudyFolder:
    """The content of a study's folder; the study may still be running."""

    path: Path
    recipe: Recipe
    results: Results
    info: StudyRecord
    """The content of study.json: the command, and the time of the start."""

    @staticmethod
    def holds(path: str | Path) -> bool:
        return (Path(path) / STUDY).is_file()

    @staticmethod
    def open(path: str | Path) -> StudyFolder:
        path = Path(path)
        missing = f"{path} is not the folder of a study: it has no {STUDY}."
        info = serial.read(path / STUDY, StudyRecord, missing=missing)
        return StudyFolder(path, read_recipe(path / RECIPE), read_results(path / RESULTS), info)

    @property
    def rows(self) -> tuple[StudyRow, ...]:
        """The rows in the order of the recipe."""
        return tuple(row for cell in cells(self.recipe, self.results.rows) for row in cell.rows)

    @property
    def loss(self) -> str:
        """The message if some rows could not be read."""
        return self.results.sentence(self.path / RESULTS) if self.results.lost else ""

    def tables(self, form: Format) -> str:
        """The tables as Markdown or LaTeX, or all runs as CSV."""
        if form == "csv":
            return study_csv(self.rows)
        return (study_markdown if form == "md" else study_latex)(self.recipe, self.rows)


def write_study(folder: StudyFolder) -> Path:
    """Write report.html, figures/*.svg, and tables.md, .tex and .csv."""
    drawn = study_figures(cells(folder.recipe, folder.results.rows))
    write_figures(folder.path, drawn)
    for form in get_args(Format):
        write_text(folder.path / f"tables.{form}", folder.tables(form))
    write_text(folder.path / REPORT, study_page(folder, drawn))
    return folder.path / REPORT


def study_page(folder: StudyFolder, drawn: Sequence[Figure]) -> str:
    recipe, rows = folder.recipe, folder.rows
    return document(
        f"Study: {recipe.name}",
        recipe.about or f"{counted(len(recipe.drafts), 'cell')}.",
        [
            Section("What was run", paragraphs(measured(rows), folder.loss)),
            Section("The tables", "".join(map(table_of, study_tables(recipe, rows)))),
            Section("The runs", "".join(map(figure_of, drawn)) or paragraphs("No run is done yet.")),
            Section("Reproduce", _reproduce(folder, rows)),
        ],
        description=f"The tables of the study {recipe.name}",
    )


def _reproduce(folder: StudyFolder, rows: Sequence[StudyRow]) -> str:
    models = dict.fromkeys(f"{row.model} · {row.model_fingerprint}" for row in rows if row.model_fingerprint)
    versions = {name: version for row in rows for name, version in row.versions.items()}
    return (
        code((folder.info.command or f"pivotal study {RECIPE}") + "\n")
        + definitions(
            [
                ("models", ", ".join(models)),
                ("versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
                ("started", folder.info.started),
                ("rows", f"{RESULTS} has one row per run; tables.csv has the same rows as a table"),
            ]
        )
        + paragraphs("The recipe:")
        + code(folder.recipe.text)
    )
