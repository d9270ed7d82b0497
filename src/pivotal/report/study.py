"""The report of a study, and its tables as files: Markdown and LaTeX for people, CSV with a line per run for programs.
They are made from the folder, without a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pivotal.files import write_text
from pivotal.folders import locked
from pivotal.jobs.run_folder import REPORT
from pivotal.jobs.study.recipe import Recipe, read_recipe
from pivotal.printing import counted, duration
from pivotal.records import serial
from pivotal.records.study import FLAT, RECIPE, RESULTS, STUDY, StudyRecord, StudyRow, flat, read_results
from pivotal.report import export
from pivotal.report.drawing import Figure, write_figures
from pivotal.report.study_figures import study_figures
from pivotal.report.study_tables import batches, cells, study_tables
from pivotal.report.templates import page


@dataclass(frozen=True)
class StudyFolder:
    """The content of a study's folder; the study may still be running."""

    path: Path
    recipe: Recipe
    rows: tuple[StudyRow, ...]
    """In the order of the recipe."""
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
        recipe = read_recipe(path / RECIPE)
        rows = tuple(row for cell in cells(recipe, read_results(path / RESULTS)) for row in cell.rows)
        return StudyFolder(path, recipe, rows, info)


def write_study(path: Path) -> Path:
    """Write report.html, figures/*.svg, and tables.md, .tex and .csv of the study in a folder."""
    with locked(path, "study"):
        folder = StudyFolder.open(path)
        drawn = study_figures(cells(folder.recipe, folder.rows), folder.recipe.table)
        write_figures(path, drawn)
        write_text(path / "tables.md", study_markdown(folder.recipe, folder.rows))
        write_text(path / "tables.tex", study_latex(folder.recipe, folder.rows))
        write_text(path / "tables.csv", study_csv(folder.rows))
        write_text(path / REPORT, study_page(folder, drawn))
    return path / REPORT


def study_page(folder: StudyFolder, drawn: Sequence[Figure]) -> str:
    recipe, rows = folder.recipe, folder.rows
    models = dict.fromkeys(f"{row.model} · {row.model_fingerprint}" for row in rows if row.model_fingerprint)
    versions = {name: version for row in rows for name, version in row.versions.items()}
    return page(
        "study.html",
        title=f"Study: {recipe.name}",
        lead=recipe.about or f"{counted(len(recipe.drafts), 'cell')}.",
        description=f"The tables of the study {recipe.name}",
        measured=[measured(rows)],
        tables=study_tables(recipe, rows),
        figures=drawn,
        command=folder.info.command or f"pivotal study {RECIPE}",
        reproduce=[
            ("models", ", ".join(models)),
            ("versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
            ("started", folder.info.started),
            ("rows", f"{RESULTS} has one row per run; tables.csv has the same rows as a table"),
        ],
        recipe=recipe.text.rstrip(),
    )


# -- sentences and files -----------------------------------------------------------------------------------


def measured(rows: Sequence[StudyRow]) -> str:
    """The number of runs, the machines and the time."""
    done = [row for row in rows if row.done]
    if not done:
        return "Not measured yet."
    machines = " and ".join(dict.fromkeys(row.machine or row.device or "an unnamed machine" for row in done))
    seconds = [row.total_seconds for row in batches(done)]
    timed = [second for second in seconds if second is not None]
    total = f": {duration(sum(timed))} in total, with scoring and without loading models"
    versions = ", ".join(
        dict.fromkeys(f"torch {row.versions['torch']}" for row in done if "torch" in row.versions)
    )
    return (
        f"{counted(len(done), 'run')} of {counted(len({row.key for row in done}), 'cell')} on {machines}"
        f"{f' ({versions})' if versions else ''}{total if len(timed) == len(seconds) else ''}."
    )


def study_markdown(recipe: Recipe, rows: Sequence[StudyRow]) -> str:
    return "\n".join(
        (f"**{export.in_markdown(shown.title)}**\n\n" if shown.title else "") + export.markdown(shown)
        for shown in study_tables(recipe, rows)
    )


def study_latex(recipe: Recipe, rows: Sequence[StudyRow]) -> str:
    """A booktabs tabular per table, with its title and its note as comments."""
    return "\n".join(
        "".join(f"% {export.one_line(text)}\n" for text in (shown.title or recipe.name, shown.note) if text)
        + export.latex(shown)
        for shown in study_tables(recipe, rows)
    )


def study_csv(rows: Sequence[StudyRow]) -> str:
    """A line per run. Seconds and nodes are those of the whole batch; `batch` is the number of its runs."""
    lines = flat(rows)
    header = tuple(lines[0]) if lines else FLAT
    return export.csv_text([header, *(tuple(line.values()) for line in lines)])
