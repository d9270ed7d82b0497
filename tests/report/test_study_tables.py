"""What the tables of a study say of its rows, and how they stand beside the paper's."""

import csv
import io
from dataclasses import replace
from typing import Any

import pytest
from tests.report.study_rows import row, runs, unit

from pivotal.jobs.study.cells import cells_of
from pivotal.jobs.study.recipe import parse_recipe, read_recipe, shipped
from pivotal.records.study import FoundUnit
from pivotal.report.study import measured, study_csv, study_latex, study_markdown
from pivotal.report.study_tables import CellRows, failures, lines_of, printed_beside, printed_in, study_tables
from pivotal.report.tables import Table

SUMMARY = read_recipe("summary")
WITHOUT = {"question": "number single", "KL term": "without", "values": "unbounded"}
WITH = {"question": "number single", "KL term": "with", "values": "unbounded"}


def line(table: Table, **where: str) -> dict[str, str]:
    """The line whose cells are `where`; columns of the paper are named after what stands before them."""
    names: list[str] = []
    for column in table.columns:
        names.append(f"{column}: {names[-1]}" if column == "paper" else column)
    found = [dict(zip(names, cells, strict=True)) for cells in table.rows]
    (one,) = [cells for cells in found if where.items() <= cells.items()]
    return one


@pytest.mark.parametrize("name", shipped())
def test_every_recipe_of_the_package_is_sound(name):
    recipe = read_recipe(name)
    assert recipe.name == name and recipe.about
    assert cells_of(recipe)
    assert study_tables(recipe, [])


def test_means_and_spreads_stand_beside_the_paper():
    (table,) = study_tables(SUMMARY, runs(WITHOUT, [0.8, 0.9, 1.0]))
    assert line(table, **WITHOUT) == {
        **WITHOUT,
        "runs": "3",
        "flipped %": "90.0 ± 10.0",
        "paper: flipped %": "88.0 ± 0.2",
        "units": "5.0 ± 0.0",
        "paper: units": "5.0 ± 0.0",
        "KL": "0.500 ± 0.000",
        "paper: KL": "0.034 ± 0.003",
        "seconds": "6.0",  # of the batch, not three times that
        "M nodes": "3.00",
    }
    assert "Table 1" in table.note


def test_lines_are_in_the_order_of_the_recipe_whatever_finished_first():
    (table,) = study_tables(SUMMARY, [*runs(WITH, [0.5]), *runs(WITHOUT, [0.6])])
    assert table.rows[0][:5] == ("number single", "without", "unbounded", "1", "60.0")
    assert table.rows[1][:5] == ("number single", "with", "unbounded", "1", "50.0")
    assert len(table.rows) == 8 and table.rows[2][2:5] == ("unbounded", "0", "–")


def test_nearly_all_is_not_all():
    (table,) = study_tables(SUMMARY, runs(WITHOUT, [0.9998, 0.9999]))
    assert line(table, **WITHOUT)["flipped %"] == "99.98 ± 0.01"


def test_a_failed_run_is_counted_and_named_and_enters_no_mean():
    failed = row(WITHOUT, 2, status="failed", error="out of memory", accuracy=None, kl=None, units=None)
    (table,) = study_tables(SUMMARY, [*runs(WITHOUT, [0.8, 0.9]), failed])
    shown = line(table, **WITHOUT)
    assert (shown["runs"], shown["flipped %"]) == ("2 of 3", "85.0 ± 7.1")
    assert "1 run failed. number single, without, unbounded: out of memory." in table.note


def test_an_error_that_cells_share_is_told_once():
    failed = [row(cell, 0, status="failed", error="No such word.") for cell in (WITH, WITHOUT)]
    note = failures([CellRows(WITH, tuple(failed))])
    assert note == (
        "2 runs failed. number single, with, unbounded; number single, without, unbounded: No such word."
    )


def test_rows_of_settings_that_were_changed_since_are_left_out():
    (table,) = study_tables(SUMMARY, [*runs(WITHOUT, [0.1], key="old"), *runs(WITHOUT, [0.9], key="new")])
    assert line(table, **WITHOUT)["flipped %"] == "90.0"


def test_a_pooled_axis_has_a_line_of_all_and_the_paper_stands_there():
    recipe = read_recipe("robustness")
    rows = [
        one
        for seed, share in enumerate((0.8, 0.9))
        for one in runs({"question": "number single", "model": f"seed-{seed}"}, [share, share])
    ]
    (table,) = study_tables(recipe, rows)
    both = line(table, question="number single", model="all")
    assert (both["runs"], both["flipped %"], both["paper: flipped %"]) == ("4", "85.0 ± 5.8", "88.7 ± 2.6")
    one = line(table, question="number single", model="seed-0")
    assert (one["flipped %"], one["paper: flipped %"]) == ("80.0 ± 0.0", "")


def test_an_axis_across_makes_columns_of_flips():
    recipe = parse_recipe("name: t\ngrid: {tokens: [10M, 30M], units: ['1', '2']}\ntable: {across: units}")
    rows = [
        *runs({"tokens": "10M", "units": "1"}, [0.1, 0.3], clean_accuracy=0.7),
        *runs({"tokens": "10M", "units": "2"}, [0.5], clean_accuracy=0.7),
        *runs({"tokens": "30M", "units": "2"}, [0.9], clean_accuracy=None),
    ]
    (table,) = study_tables(recipe, rows)
    assert table.columns == ("tokens", "right %", "1", "2")
    assert table.rows == (("10M", "70.0", "20.0 ± 14.1", "50.0"), ("30M", "–", "–", "90.0"))
    assert "The columns are units" in table.note


POOLED = """
name: p
grid: {model: [a, b], steps: [every, single]}
also: [{label: {model: a, steps: every, more: x}, model: c}, {label: lone, model: d}]
table: {pool: model, kind: units}
"""


def test_cells_with_other_axes_are_in_no_line_of_all():
    scores, *_ = study_tables(parse_recipe(POOLED), [])
    shown = ["a every", "b every", "all every", "a single", "b single", "all single", "a every x", "lone"]
    assert [" ".join(filter(None, cells[:4])) for cells in scores.rows] == shown


def test_units_of_different_models_are_not_put_together():
    rows = [
        row({"model": model, "steps": steps}, model=of, steps=steps, found=[unit(7, 0.5, -0.5)])
        for steps, other in (("every", "b"), ("single", "a"))
        for model, of in (("a", "a"), ("b", other))
    ]
    titles = [shown.title for shown in study_tables(parse_recipe(POOLED), rows)]
    assert "single: 2 runs" in titles
    assert "every: 2 runs" not in titles and "a, every: 1 run" in titles


def units_rows(**changes: Any) -> list[Any]:
    found = [
        [unit(123, 0.5, -1.0, True), unit(700, 0.1, 0.2, False)],
        [unit(123, 0.7, -1.0, True)],
        [FoundUnit("hidden.0", 122, {"singular": 0.6}, True)],  # the other label was renamed
    ]
    cell = {"question": "number every", "values": "unbounded"}
    return [row(cell, seed, found=found[seed], units=len(found[seed]), **changes) for seed in range(3)]


def test_discovered_units_are_listed_as_the_paper_lists_its_own():
    scores, *tables = study_tables(read_recipe("units"), units_rows())
    natural, ours, theirs = tables[3:6]
    assert line(scores, question="number every", values="unbounded")["runs"] == "3"
    assert natural.title == "number every, natural: 0 runs"
    assert natural.rows == () and natural.note == "No run has finished yet."
    assert ours.title == "number every, unbounded: 3 runs"
    assert ours.columns == ("unit", "→ singular", "→ plural", "prevalence", "found by ablation")
    assert ours.rows == (
        ("hidden.0:122", "+0.60 ± 0.10", "−1.00 ± 0.00", "100%", "yes"),
        ("hidden.0:699", "+0.10", "+0.20", "33%", "no"),
    )
    assert "Table 2" in theirs.title and "25 runs" in theirs.title
    assert theirs.columns == ours.columns
    assert theirs.rows[4] == ("hidden.1:125", "−1.00 ± 0.00", "+0.52 ± 0.03", "100%", "yes")


def test_a_name_with_a_new_line_stays_within_its_comment():
    evil = replace(SUMMARY, name="x\n\\input{/etc/passwd}\x85y")
    head = study_latex(evil, [row(WITHOUT)]).partition("\\begin")[0]
    assert "\\input" in head
    assert all(text.startswith("%") for text in head.splitlines())


def test_texts_of_others_stay_texts_in_every_format():
    cell = {"question": "=1+1", "KL term": "a | b", "values": r"\input{x} $y$"}
    recipe = parse_recipe(
        "name: t\ngrid: {question: ['=1+1'], KL term: ['a | b'], values: ['\\input{x} $y$']}"
    )
    rows = [row(cell)]
    assert "'=1+1" in study_csv(rows).splitlines()[1]
    assert r"a \| b" in study_markdown(recipe, rows)
    assert "\\input" not in study_latex(recipe, rows) and r"\$y\$" in study_latex(recipe, rows)


def test_markdown_latex_and_csv_say_the_same():
    rows = runs(WITHOUT, [0.8, 0.9, 1.0])
    assert "| number single | without | unbounded | 3 | 90.0 ± 10.0 | 88.0 ± 0.2 |" in study_markdown(
        SUMMARY, rows
    )
    assert r"number single & without & unbounded & 3 & 90.0 $\pm$ 10.0 & 88.0 $\pm$ 0.2 &" in study_latex(
        SUMMARY, rows
    )
    lines = list(csv.DictReader(io.StringIO(study_csv(rows))))
    assert [float(one["accuracy"]) for one in lines] == [0.8, 0.9, 1.0]
    assert [one["cell: KL term"] for one in lines] == ["without"] * 3
    assert [one["seed"] for one in lines] == ["0", "1", "2"]


def test_what_was_measured_where():
    rows = [*runs(WITHOUT, [0.8, 0.9]), *runs(WITH, [0.8], total_seconds=200.0, machine="another")]
    assert measured(rows) == (
        "3 runs of 2 cells on a machine and another (torch 2.0): 3.5 minutes in total, with scoring and "
        "without loading models."
    )
    assert measured([]) == "Not measured yet."


def test_every_line_of_the_paper_stands_beside_one_line_of_ours():
    recipes = {name: read_recipe(path) for name, path in shipped().items()}
    for kind in ("scores", "units"):
        for printed in printed_in(kind):
            assert printed["beside"]
            for study in printed["beside"]:
                lines = lines_of(recipes[study], [])
                beside = [printed_beside(kind, study, line.label) is printed for line in lines]
                assert sum(beside) == 1, (study, printed)
