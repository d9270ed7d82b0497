"""`pivotal show`: a run or a study in the terminal, as a page, and in the browser."""

import json
import webbrowser
from pathlib import Path

import pytest
from tests.report.study_rows import runs, saved
from tests.stored_json import changed


@pytest.fixture
def study(tmp_path: Path) -> Path:
    rows = runs({"question": "number single", "KL term": "without"}, [0.8, 0.9, 1.0])
    return saved(tmp_path / "study", rows)


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
        *("A typical flip, to ", "Strength: the median probability of the target word", "Time: "),
        *("summary.json", "report.html", *best["unit_labels"]),
        *(f"{value:+.2f}".replace("-", "−") for value in best["values"]["plural"]),
    ):
        assert part in done.out, part


def test_pairs_that_could_not_be_asked_are_told(pivotal, own_run):
    changed(own_run / "summary.json", rejected={"total": 2, "reasons": {"outside the vocabulary: blorg": 2}})
    said = "2 pairs could not be used with this model: outside the vocabulary: blorg (2)."
    assert said in pivotal("show", own_run).out


def test_the_newest_run_without_a_name(pivotal, own_run, monkeypatch):
    monkeypatch.chdir(own_run.parent)
    assert pivotal("show").code == 2
    (own_run.parent / "runs").mkdir()
    own_run.rename(own_run.parent / "runs" / "one")
    assert pivotal("show", "--json").json["folder"] == str(Path("runs", "one"))


def test_open_opens_the_newest_page_or_the_one_that_is_named(pivotal, own_run, study, browser, monkeypatch):
    monkeypatch.chdir(own_run.parent)
    pivotal("open").refused("There is no run in runs")
    (own_run.parent / "runs").mkdir()
    there = own_run.rename(own_run.parent / "runs" / "one")
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


def test_an_unfinished_run_says_how_to_resume_it(pivotal, own_run):
    (own_run / "summary.json").unlink()
    done = pivotal("show", own_run)
    assert done.code == 0 and "not finished. To resume it: pivotal find planted planted" in done.out
    shown = pivotal("show", own_run, "--json").json
    assert not shown["finished"] and shown["summary"] is None


# -- the page -------------------------------------------------------------------------------------------------------


def test_the_page_of_a_run_comes_out_the_same(run_folder, own_run, pivotal):
    own_run = own_run.rename(own_run.with_name(run_folder.name))
    (own_run / "report.html").unlink()
    said = pivotal("show", own_run, "--page")
    assert said.code == 0 and str(own_run / "report.html") in said.out
    # the command that made the run names the folder of then, the lines that apply it that of now
    was, made = (
        (path / "report.html").read_text(encoding="utf-8").replace(str(path), str(run_folder))
        for path in (run_folder, own_run)
    )
    assert made == was


def test_a_missing_page_is_written_before_it_is_opened(own_run, browser, pivotal):
    (own_run / "report.html").unlink()
    assert pivotal("open", own_run).code == 0
    assert (own_run / "report.html").is_file() and browser[0].endswith("/a%20run/report.html")
    written = (own_run / "report.html").stat().st_mtime_ns
    assert pivotal("open", own_run).code == 0
    assert (own_run / "report.html").stat().st_mtime_ns == written and len(browser) == 2


def test_a_damaged_summary_is_refused(own_run, pivotal):
    example = json.loads((own_run / "summary.json").read_text())["example"]
    changed(own_run / "summary.json", example={**example, "direction": "dual"})
    pivotal("show", own_run).refused("summary.json", "the example flips to 'dual', which is no label")


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
