"""The report of a comparison: whole, self-contained, and true to compare.json."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pivotal.jobs.compare import ComparisonPlan, Contender, compare
from pivotal.jobs.run_files import own_files
from pivotal.jobs.run_folder import RunFolder
from pivotal.questions.question import Question
from pivotal.records.serial import replace
from pivotal.report import comparison_tables as said
from pivotal.report.comparison import write_comparison
from pivotal.report.comparison_figures import comparison_figures
from pivotal.report.export import csv_text, latex, markdown
from pivotal.report.tables import Table
from pivotal.searches.learned import LearnedMask

FIGURES = {"accuracy-units", "kl-units", "accuracy-kl", "cost"}
CONTENDERS = (
    Contender("learned", LearnedMask(updates=40, refit=8)),
    Contender("learned@paper", LearnedMask(updates=10, refit=0)),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    question = Question(model="planted", phenomenon="planted", test=81)
    out = str(tmp_path_factory.mktemp("report") / "compare")
    plan = ComparisonPlan(CONTENDERS, (1, 3), runs=2, mode="both")
    folder = compare(question, plan, out=out, command="pivotal compare planted 'a <b>'").folder
    write_comparison(folder)
    return folder


def test_one_well_formed_file_that_fetches_nothing(
    folder: RunFolder, check_page: Callable[[str], None]
) -> None:
    text = folder.report.read_text(encoding="utf-8")
    check_page(text)
    assert not re.search(r"url\(|@import", text)
    assert len(text) < 1_000_000
    assert "pivotal compare planted &#x27;a &lt;b&gt;&#x27;" in text


def test_every_figure_is_inline_saved_described_and_has_its_numbers(folder: RunFolder) -> None:
    text = folder.report.read_text(encoding="utf-8")
    names = FIGURES | {f"equal-{name}" for name in FIGURES}
    assert {p.stem for p in (folder.path / "figures").iterdir()} == names
    for name in names:
        svg = (folder.path / "figures" / f"{name}.svg").read_text(encoding="utf-8")
        assert ElementTree.fromstring(svg).tag.endswith("svg")
        assert svg.strip() in text and "learned@paper" in svg
    assert text.count("<figure ") == text.count('<svg role="img" aria-label="') == len(names)
    assert text.count("<summary>The numbers</summary>") == len(names)
    for figure in comparison_figures(folder.comparison()):
        assert len(figure.data.rows) == 4, "two searches, two sizes"


def test_every_file_is_known_as_one_of_the_comparison(folder: RunFolder) -> None:
    """--overwrite removes these files and no others."""
    written = {path for path in folder.path.rglob("*") if path.is_file()}
    assert written <= set(own_files(folder.path, folder.info))


def test_it_says_what_compare_json_says(folder: RunFolder) -> None:
    text, result = folder.report.read_text(encoding="utf-8"), folder.comparison()
    assert said.sentence(result) in text
    assert "with at most 3 units learned flips 100.0 ± 0.0%, learned@paper " in said.sentence(result)
    for row in result.rows:
        assert f"{row.interventions}/{row.best}" in text
        assert ", ".join(map(str, row.runs[row.best].unit_numbers)) in text
    assert folder.settings["model_fingerprint"] in text and folder.settings["data_fingerprint"] in text


def test_table_and_figure_as_files(folder: RunFolder) -> None:
    result = folder.comparison()
    lines = (folder.path / "compare.md").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("| search | mode | units |")
    assert sum(line.startswith("| learned") for line in lines) == len(result.rows)
    tex = (folder.path / "compare.tex").read_text(encoding="utf-8")
    assert tex.count("\\\\\n") == len(result.rows) + 1 and "±" not in tex and r"100.0 $\pm$ 0.0\%" in tex
    with (folder.path / "compare.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["flip_accuracy"]) for row in rows] == [
        run.flip_accuracy for row in result.rows for run in row.runs
    ]
    assert ElementTree.fromstring((folder.path / "compare.svg").read_text(encoding="utf-8")) is not None
    assert (folder.path / "compare.png").read_bytes().startswith(b"\x89PNG")


def test_cells_cannot_break_their_table() -> None:
    odd = Table("", ("a|b", "c_d"), (("x & y", "50%"),), frozenset({1}))
    assert markdown(odd) == "| a\\|b | c_d |\n|---|---:|\n| x & y | 50% |\n"
    evil = Table("", ("a",), (("<script>x</script>\n| [a](javascript:b) &lt; \x1b[2J\\",),))
    (row,) = markdown(evil).splitlines()[2:]
    assert row == r"| &lt;script>x&lt;/script> \| \[a](javascript:b) &amp;lt; \\x1b\[2J\\ |"
    assert latex(evil).splitlines()[4].endswith(r"\\") and "\x1b" not in latex(evil)
    assert latex(odd).splitlines()[2:5] == [r"a|b & c\_d \\", r"\midrule", r"x \& y & 50\% \\"]


@pytest.mark.slow
def test_it_is_made_from_the_folder_alone(folder: RunFolder, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder.path, copy)
    (copy / "report.html").unlink()
    code = (
        "import sys; sys.modules['torch'] = None  # as on a machine without it\n"
        "from pivotal.jobs.run_folder import RunFolder; from pivotal.report.comparison import write_comparison\n"
        f"write_comparison(RunFolder.open({str(copy)!r}))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert (copy / "report.html").is_file()


def test_one_search_one_size_one_run_half_way(
    folder: RunFolder, tmp_path: Path, check_page: Callable[[str], None]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder.path, copy)
    result = json.loads((copy / "compare.json").read_text())
    row = result["rows"][1]
    row["runs"] = row["runs"][:1]
    row["kl_bound_kept"], row["max_kl"], row["seconds"] = 0, 0.05, 0.0
    for name in ("flip_accuracy", "units", "kl", "kl_after_edit"):
        row[name]["sd"] = None
    (copy / "compare.json").write_text(json.dumps({**result, "finished": False, "runs": 1, "rows": [row]}))
    half = RunFolder.open(copy)
    text = write_comparison(half).read_text(encoding="utf-8")
    check_page(text)
    assert "The comparison is not finished" in text
    assert "* KL of some run on held-out pairs is more than a tenth above its bound of 0.05." in text
    assert "Equal budgets" not in text and "±" not in said.sentence(half.comparison())


def test_who_spends_more_than_the_budget_is_marked(folder: RunFolder) -> None:
    result = folder.comparison()
    row = result.rows[4]
    assert row.search == "learned" and row.nodes == row.budget
    result = replace(result, rows=(*result.rows[:4], replace(row, budget=row.nodes // 2), *result.rows[5:]))
    cost = said.frontier_tables(result, "equal")[2]
    assert cost.rows[0][1].endswith("†") and not cost.rows[0][2].endswith("†")
    assert cost.note.startswith("† More than a tenth above the budget")
    assert "†" not in "".join("".join(row) for row in said.frontier_tables(result, "converged")[2].rows)


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ('=HYPERLINK("http://x")', '"\'=HYPERLINK(""http://x"")"'),
        ("+1+cmd|' /C calc'!A0", "'+1+cmd|' /C calc'!A0"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1+1", "'\t=1+1"),
        ("-0.5", "-0.5"),
        (-0.5, "-0.5"),
        ("learned@paper", "learned@paper"),
        ("two\nlines", '"two\nlines"'),
        (None, ""),
    ],
)
def test_a_cell_of_a_csv_file_is_never_a_formula(cell: object, written: str) -> None:
    assert csv_text([[cell, 1]]) == f"{written},1\n"
