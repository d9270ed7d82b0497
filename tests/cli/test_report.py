"""`pivotal report` makes again what a folder shows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.report.study_rows import runs

from pivotal.jobs.study.recipe import read_recipe
from pivotal.records.serial import encode
from pivotal.records.study import StudyRecord


@pytest.fixture
def study(tmp_path: Path) -> Path:
    rows = runs({"question": "number single", "KL term": "without"}, [0.8, 0.9, 1.0])
    (tmp_path / "recipe.yaml").write_text(read_recipe("summary").text)
    (tmp_path / "results.jsonl").write_text("".join(encode(one, indent=0) + "\n" for one in rows))
    (tmp_path / "study.json").write_text(encode(StudyRecord(name="summary")))
    return tmp_path


def test_tables_of_a_study_are_printed_and_written(study: Path, pivotal: Run) -> None:
    said = pivotal("report", study)
    assert said.code == 0
    assert "90.0 ± 10.0" in said.out and "88.0 ± 0.2" in said.out
    assert {"report.html", "tables.md", "tables.tex", "tables.csv"} <= {path.name for path in study.iterdir()}


def test_json_of_a_study_has_its_tables(study: Path, pivotal: Run) -> None:
    made = json.loads(pivotal("report", study, "--json").out)
    assert (made["kind"], made["report"]) == ("study", str(study / "report.html"))
    assert any("90.0 ± 10.0" in row for table in made["tables"] for row in table["rows"])
    pivotal("report", study, "--json", "--format", "md").refused("Give only one of them")


@pytest.mark.parametrize("form", ["md", "tex", "csv"])
def test_a_form_is_printed_as_it_is_written(study: Path, form: str, pivotal: Run) -> None:
    said = pivotal("report", study, "--format", form)
    assert said.code == 0 and said.out == (study / f"tables.{form}").read_text(encoding="utf-8")


def test_lost_rows_are_said_beside_the_tables(study: Path, pivotal: Run) -> None:
    path = study / "results.jsonl"
    path.write_text(path.read_text()[:-30])
    said = pivotal("report", study)
    assert said.code == 0 and "1 row of 3 cannot be read" in said.err and "85.0 ± 7.1" in said.out


def test_the_page_of_a_run_comes_out_the_same(run_folder: Path, tmp_path: Path, pivotal: Run) -> None:
    original, folder = run_folder, tmp_path / run_folder.name
    shutil.copytree(original, folder)
    (folder / "report.html").unlink()
    said = pivotal("report", folder)
    assert said.code == 0 and str(folder / "report.html") in said.out
    # the command that made the run names the folder of then, the lines that apply it that of now
    was, made = (
        (path / "report.html").read_text(encoding="utf-8").replace(str(path), str(original))
        for path in (original, folder)
    )
    assert made == was


def test_json_of_a_run(run_folder: Path, tmp_path: Path, pivotal: Run) -> None:
    shutil.copytree(run_folder, tmp_path / "r")
    made = json.loads(pivotal("report", tmp_path / "r", "--json").out)
    assert made == {
        "folder": str(tmp_path / "r"),
        "kind": "run",
        "report": str(tmp_path / "r" / "report.html"),
    }


def test_what_is_no_folder_of_ours(tmp_path: Path, pivotal: Run, run_folder: Path) -> None:
    pivotal("report", tmp_path).refused("not a run folder")
    pivotal("report", tmp_path / "nowhere").refused("not a run folder")
    pivotal("report", run_folder, "--format", "md").refused("--format is for the tables of a study")


@pytest.mark.slow
def test_the_pages_of_units_are_computed_again_from_a_text(
    run_folder: Path, tmp_path: Path, pivotal: Run
) -> None:
    folder = Path(shutil.copytree(run_folder, tmp_path / "r"))
    (folder / "units.json").unlink()
    (tmp_path / "mine.txt").write_text("The noun0a quite\nThe noun0as near\n")
    assert pivotal("report", folder, "--sentences", tmp_path / "mine.txt").code == 0
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "The words of mine.txt (6 tokens)" in page and "<mark>noun0as</mark>" in page
    assert pivotal("report", folder, "--units").code == 0
    stored = [json.loads((where / "units.json").read_text()) for where in (run_folder, folder)]
    assert stored[0] == stored[1], "as `find` wrote it"


def test_options_of_the_units_belong_to_them(
    run_folder: Path, study: Path, tmp_path: Path, pivotal: Run
) -> None:
    pivotal("report", run_folder, "--device", "cpu").refused("--model and --device are for --units")
    pivotal("report", run_folder, "--sentences", tmp_path / "none.txt").refused("none.txt")
    pivotal("report", study, "--units").refused("is not a run folder")
