"""`pivotal show`: a run or a study in the terminal, as a page, and in the browser."""

import json
import shutil
import webbrowser
from pathlib import Path

import pytest
from tests.report.study_rows import runs

from pivotal.jobs.study.recipe import read_recipe
from pivotal.records.serial import encode
from pivotal.records.study import StudyRecord


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder = tmp_path / "study"
    folder.mkdir()
    rows = runs({"question": "number single", "KL term": "without"}, [0.8, 0.9, 1.0])
    (folder / "recipe.yaml").write_text(read_recipe("summary").text)
    (folder / "results.jsonl").write_text("".join(encode(one, indent=0) + "\n" for one in rows))
    (folder / "study.json").write_text(encode(StudyRecord(name="summary")))
    return folder


@pytest.fixture
def copy(run_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run_folder, tmp_path / "a run"))


@pytest.fixture
def browser(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that a browser was asked to open."""
    asked: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: not asked.append(address))
    return asked


# -- a run ----------------------------------------------------------------------------------------------------------


def test_a_finished_run(pivotal, run_folder):
    done = pivotal("show", run_folder)
    assert done.code == 0
    summary = json.loads((run_folder / "summary.json").read_text())
    best = summary["runs"][summary["best"]]
    for part in (
        "planted in planted, units set at every step",
        "Sites all; values natural; 303 held-out pairs, split by prefixes; 2 runs from seed 0",
        "Search learned; its settings are in run.json",
        "3 of 64 units switch planted",
        summary["verdict"]["sentence"],
        "A typical flip, to ",
        "Strength: the median probability of the target word",
        "Time: ",
        *best["unit_labels"],
        *(f"{value:+.2f}".replace("-", "−") for value in best["values"]["plural"]),
        "summary.json",
        "report.html",
    ):
        assert part in done.out, part


def test_pairs_that_could_not_be_asked_are_told(pivotal, copy):
    summary = json.loads((copy / "summary.json").read_text())
    summary["rejected"] = {"total": 2, "reasons": {"outside the vocabulary: blorg": 2}}
    (copy / "summary.json").write_text(json.dumps(summary))
    assert (
        "2 pairs could not be used with this model: outside the vocabulary: blorg (2)."
        in pivotal("show", copy).out
    )


def test_the_newest_run_without_a_name(pivotal, copy, monkeypatch):
    monkeypatch.chdir(copy.parent)
    assert pivotal("show").code == 2
    (copy.parent / "runs").mkdir()
    copy.rename(copy.parent / "runs" / "one")
    assert pivotal("show", "--json").json["folder"] == str(Path("runs", "one"))


def test_open_opens_the_newest_page_or_the_one_that_is_named(pivotal, copy, study, browser, monkeypatch):
    monkeypatch.chdir(copy.parent)
    pivotal("open").refused("There is no run in runs")
    (copy.parent / "runs").mkdir()
    there = copy.rename(copy.parent / "runs" / "one")
    (there / "report.html").unlink()
    assert pivotal("open").code == 0 and pivotal("open", study).code == 0
    assert browser == [(folder / "report.html").as_uri() for folder in (there, study)]


def test_json_of_a_run(pivotal, run_folder):
    shown = pivotal("show", run_folder, "--json").json
    assert shown["finished"] and shown["summary"] == json.loads((run_folder / "summary.json").read_text())
    assert (shown["kind"], shown["report"]) == ("run", None)
    assert shown["settings"]["search"]["name"] == "learned"
    assert shown["command"].startswith("pivotal find planted planted")
    assert {"summary.json", "run.json", "interventions"} <= set(shown["files"])


def test_an_unfinished_run_says_how_to_resume_it(pivotal, copy):
    (copy / "summary.json").unlink()
    done = pivotal("show", copy)
    assert done.code == 0 and "not finished. To resume it: pivotal find planted planted" in done.out
    shown = pivotal("show", copy, "--json").json
    assert not shown["finished"] and shown["summary"] is None


# -- the page -------------------------------------------------------------------------------------------------------


def test_the_page_of_a_run_comes_out_the_same(run_folder, tmp_path, pivotal):
    copy = Path(shutil.copytree(run_folder, tmp_path / run_folder.name))
    (copy / "report.html").unlink()
    said = pivotal("show", copy, "--page")
    assert said.code == 0 and str(copy / "report.html") in said.out
    # the command that made the run names the folder of then, the lines that apply it that of now
    was, made = (
        (path / "report.html").read_text(encoding="utf-8").replace(str(path), str(run_folder))
        for path in (run_folder, copy)
    )
    assert made == was


def test_a_missing_page_is_written_before_it_is_opened(copy, browser, pivotal):
    (copy / "report.html").unlink()
    assert pivotal("open", copy).code == 0
    assert (copy / "report.html").is_file() and browser[0].endswith("/a%20run/report.html")
    written = (copy / "report.html").stat().st_mtime_ns
    assert pivotal("open", copy).code == 0
    assert (copy / "report.html").stat().st_mtime_ns == written and len(browser) == 2


def test_a_damaged_summary_is_refused(copy, pivotal):
    summary = json.loads((copy / "summary.json").read_text())
    summary["example"]["direction"] = "dual"
    (copy / "summary.json").write_text(json.dumps(summary))
    pivotal("show", copy).refused("summary.json", "the example flips to 'dual', which is no label")


def test_without_a_browser_the_file_is_named(run_folder, monkeypatch, pivotal):
    monkeypatch.setattr(webbrowser, "open", lambda address: False)
    done = pivotal("open", run_folder)
    assert done.code == 2 and f"Open this file in one: {run_folder / 'report.html'}" in done.err


# -- a study --------------------------------------------------------------------------------------------------------


def test_tables_of_a_study_are_printed_and_written(study, pivotal):
    said = pivotal("show", study)
    assert said.code == 0 and "90.0 ± 10.0" in said.out and "88.0 ± 0.2" in said.out
    assert not (study / "report.html").exists()
    made = pivotal("show", study, "--page", "--json").json
    assert {"report.html", "tables.md", "tables.tex", "tables.csv"} <= {path.name for path in study.iterdir()}
    assert (made["kind"], made["report"]) == ("study", str(study / "report.html"))
    assert any("90.0 ± 10.0" in row for table in made["tables"] for row in table["rows"])


def test_a_damaged_row_is_refused(study, pivotal):
    path = study / "results.jsonl"
    path.write_text(path.read_text()[:-30])
    pivotal("show", study).refused("results.jsonl, line 3 must be JSON", "Remove the line")


def test_options_that_do_not_fit_the_folder(run_folder, study, tmp_path, pivotal, browser):
    pivotal("open", tmp_path).refused("not a run folder")
    pivotal("show", run_folder, "--site", tmp_path).refused("--site is for a study")
    assert browser == []
