"""The report of a comparison, and its table and figure as files. They are made from the folder, without a model."""

from __future__ import annotations

from pathlib import Path

from pivotal.jobs.run_files import REPORT
from pivotal.jobs.run_folder import RunFolder
from pivotal.records.comparison import ComparisonRecord
from pivotal.report import comparison_tables as said
from pivotal.report import tables
from pivotal.report.comparison_figures import comparison_figures, overview
from pivotal.report.drawing import Figure, draw, picture, write_figures
from pivotal.report.export import comparison_csv, latex, markdown
from pivotal.report.html import Section, document, figure_of, paragraph, paragraphs, table_of
from pivotal.report.page import reproduce

_READ = (
    "All searches used the same training pairs. All numbers here were measured on held-out pairs. The best run of a "
    "search is the run with the best score on training pairs. One search is better than another only where their bars, "
    "from the minimum to the maximum over the runs, do not overlap, and only at a similar KL. An intervention with a "
    "high KL may flip more preferences, but it also changes everything else that the model predicts."
)


def write_comparison(folder: RunFolder) -> Path:
    """Write report.html, figures/*.svg, and compare.md, .csv, .tex, .svg and .png."""
    result = folder.comparison()
    drawn = comparison_figures(result)
    write_figures(folder.path, drawn)
    full, chart = said.full_table(result), overview(result)
    folder.write_text("compare.md", markdown(full))
    folder.write_text("compare.tex", latex(full))
    folder.write_text("compare.csv", comparison_csv(result))
    if svg := draw(chart):
        folder.write_text("compare.svg", svg + "\n")
        folder.write_bytes("compare.png", picture(chart))
    folder.write_text(REPORT, comparison_page(folder, result, drawn))
    return folder.report


def comparison_page(folder: RunFolder, result: ComparisonRecord, drawn: list[Figure]) -> str:
    title = f"Searches compared: {result.phenomenon} in {result.model}"
    searches = said.searches_of(result.rows)
    sections = [
        Section("What was asked", _asked(result)),
        Section("What each search finds", paragraphs(_READ, said.budget_sentence(result))
                + "".join(map(figure_of, drawn))),
        Section("The table", table_of(said.full_table(result), title=False)),
        Section("The units", table_of(said.units_table(result), title=False)
                + paragraph("Each folder is an intervention that pivotal evaluate and generate can read.")),
        Section("Reproduce", reproduce(folder, result.pairs, result.searches)),
    ]  # fmt: skip
    description = f"{', '.join(searches)} on {result.phenomenon}"
    return document(title, said.sentence(result), sections, description=description)


def _asked(result: ComparisonRecord) -> str:
    where = "at every step" if result.steps == "every" else "once, at the cue"
    sizes = ", ".join(map(str, result.sizes))
    return paragraphs(
        f"Which of the {result.all_units:,} units of {result.model} decide {result.phenomenon} "
        f"({' or '.join(result.labels)}) when they are set {where}? Units allowed: {sizes}. Each search had "
        f"{tables.counted(result.runs, 'run')} on {tables.counted(result.pairs.train, 'training pair')} and was scored "
        f"on {tables.counted(result.pairs.test, 'held-out pair')}.",
        said.values_sentence(result),
        tables.clean_sentence(result),
        tables.skipped_sentence(result.rejected),
        "" if result.finished else "The comparison is not finished; this page shows the finished rows.",
    )
