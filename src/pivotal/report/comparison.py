"""The report of a comparison, and its table and figure as files; reads the comparison's folder only."""

from __future__ import annotations

from pathlib import Path

from pivotal.files import disk, write_atomically
from pivotal.jobs.run_folder import FIGURES, REPORT, RunFolder
from pivotal.records.comparison import ComparisonRecord
from pivotal.report import comparison_tables as said
from pivotal.report import tables
from pivotal.report.comparison_figures import comparison_figures, overview
from pivotal.report.drawing import Figure, draw, picture
from pivotal.report.export import comparison_csv, latex, markdown
from pivotal.report.html import (
    Section,
    code,
    definitions,
    document,
    figure_of,
    paragraph,
    paragraphs,
    table_of,
)

_READ = (
    "Every search got the same training pairs and none of the held-out ones, on which all numbers here were measured. "
    "The best run of a search is the one with the best score on training pairs. A line above another is the better "
    "search only where the bars from the least to the most run do not overlap, and at a like KL: flips can be bought "
    "with damage to everything else that the model says."
)


def write_comparison(folder: RunFolder) -> Path:
    """Writes report.html, figures/*.svg, and compare.md, .csv, .tex, .svg and .png."""
    result = folder.comparison()
    drawn = comparison_figures(result)
    for figure in drawn:
        folder.write_text(f"{FIGURES}/{figure.name}.svg", figure.labelled + "\n")
    full, chart = said.full_table(result), overview(result)
    folder.write_text("compare.md", markdown(full))
    folder.write_text("compare.tex", latex(full))
    folder.write_text("compare.csv", comparison_csv(result))
    folder.write_text("compare.svg", draw(chart) + "\n")
    image = picture(chart)
    with disk(folder.path / "compare.png"):
        write_atomically(folder.path / "compare.png", lambda partial: Path(partial).write_bytes(image))
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
                + paragraph("Each is an intervention by itself: give its folder to pivotal evaluate or generate.")),
        Section("Have it again", _reproduce(folder, result)),
    ]  # fmt: skip
    description = f"{', '.join(searches)} on {result.phenomenon}"
    return document(title, said.sentence(result), sections, description=description)


def _asked(result: ComparisonRecord) -> str:
    where = "at every step" if result.steps == "every" else "once, at the cue"
    sizes = ", ".join(map(str, result.sizes))
    return paragraphs(
        f"Which units of {result.model}, of {result.all_units:,} in all, decide {result.phenomenon} "
        f"({' or '.join(result.labels)}) when they are set {where}? Each search was allowed {sizes} units and had "
        f"{tables.counted(result.runs, 'run')}, learned on {result.pairs.train:,} pairs and was scored on "
        f"{result.pairs.test:,} others.",
        tables.clean_sentence(result),
        tables.skipped_sentence(result.rejected),
        "" if result.finished else "The comparison is not finished: these are the rows that there are.",
    )


def _reproduce(folder: RunFolder, result: ComparisonRecord) -> str:
    info, settings = folder.info, folder.settings
    rows = [
        ("model", f"{settings['model']} · {settings['model_fingerprint']}"),
        ("pairs", f"{settings['phenomenon']} · {settings['data_fingerprint']} ({settings['split']})"),
        ("seeds", ", ".join(map(str, info.seeds or ()))),
        *(
            (label, " ".join(f"{name}={value}" for name, value in options.items()))
            for label, options in result.searches.items()
        ),
        ("versions", ", ".join(f"{name} {version}" for name, version in info.versions.items())),
        ("device", info.device or ""),
        ("started", info.started),
    ]
    command = info.command or "This comparison was started from Python; run.json has its settings."
    return code(command + "\n") + definitions(rows)
