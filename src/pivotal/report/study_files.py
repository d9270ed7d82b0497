"""The tables of a study as files: Markdown and LaTeX for people, CSV with a line per run for programs."""

from __future__ import annotations

from collections.abc import Sequence

from pivotal.jobs.study.recipe import Recipe
from pivotal.printing import duration
from pivotal.questions.splits import Split, todays
from pivotal.records.study_rows import StudyRow
from pivotal.report import export
from pivotal.report.study_cells import batches
from pivotal.report.study_tables import study_tables
from pivotal.report.tables import Table, counted

_SCORES = ("accuracy", "units", "kl", "kl_after_edit", "clean_accuracy")
_WHAT = ("model", "phenomenon", "steps", "sites", "split", "priming", "search", "preset", "seed", "status")
_COST = ("search_seconds", "total_seconds", "forward_nodes", "backward_nodes", "device", "machine", "error")

_HELD_OUT: dict[Split, str] = {
    "prefixes": "whole prefixes",
    "words": "whole words",
    "pairs": "pairs at random",
}


def made_with(rows: Sequence[StudyRow]) -> str:
    """The settings whose defaults have changed: how pairs were held out, the values, and the size of an update."""
    done = [row for row in rows if row.done]
    splits = dict.fromkeys(_HELD_OUT[todays(row.split)] for row in done)
    values = dict.fromkeys(row.values for row in done)
    sizes = dict.fromkeys(
        f"{row.options['batch']}" for row in done if row.search == "learned" and "batch" in row.options
    )
    said = (
        f"Held out: {' or '.join(splits)}." if splits else "",
        f"Values: {' or '.join(values)}." if values else "",
        f"Prefixes in an update of `learned`: {' or '.join(sizes)}." if sizes else "",
    )
    return " ".join(filter(None, said))


def measured(rows: Sequence[StudyRow]) -> str:
    """The number of runs, the machines and the time."""
    done = [row for row in rows if row.done]
    if not done:
        return "Not measured yet."
    machines = " and ".join(dict.fromkeys(row.machine or row.device or "an unnamed machine" for row in done))
    seconds = [row.total_seconds for row in batches(done)]
    versions = ", ".join(
        dict.fromkeys(f"torch {row.versions['torch']}" for row in done if "torch" in row.versions)
    )
    return (
        f"{counted(len(done), 'run')} of {counted(len({row.key for row in done}), 'cell')} on {machines}"
        f"{f' ({versions})' if versions else ''}{_total(seconds)}."
    )


def _total(seconds: Sequence[float | None]) -> str:
    """The total time in words; empty if a part was not timed."""
    timed = [second for second in seconds if second is not None]
    if len(timed) < len(seconds):
        return ""
    return f": {duration(sum(timed))} in total, with scoring and without loading models"


def study_markdown(recipe: Recipe, rows: Sequence[StudyRow]) -> str:
    return "\n".join(f"{_bold(shown)}{export.markdown(shown)}" for shown in study_tables(recipe, rows))


def _bold(shown: Table) -> str:
    return f"**{export.in_markdown(shown.title)}**\n\n" if shown.title else ""


def study_latex(recipe: Recipe, rows: Sequence[StudyRow]) -> str:
    """A booktabs tabular per table, with its title and its note as comments."""
    return "\n".join(
        "".join(f"% {export.one_line(text)}\n" for text in (shown.title or recipe.name, shown.note) if text)
        + export.latex(shown)
        for shown in study_tables(recipe, rows)
    )


def study_csv(rows: Sequence[StudyRow]) -> str:
    """A line per run. Seconds and nodes are those of the whole batch; `batch` is the number of its runs."""
    axes = list(dict.fromkeys(axis for row in rows for axis in row.cell))
    head = (*(f"cell: {axis}" for axis in axes), *_WHAT, *_SCORES, "unit_numbers", "batch", *_COST)
    lines = (
        (
            *(row.cell.get(axis, "") for axis in axes),
            *(getattr(row, name) for name in (*_WHAT, *_SCORES)),
            " ".join(str(unit.number) for unit in row.found),
            len(row.batch),
            *(getattr(row, name) for name in _COST),
        )
        for row in rows
    )
    return export.csv_text((head, *lines))
