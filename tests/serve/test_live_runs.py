"""The list of runs: what is listed, what is refused, and units in another basis."""

import os
import shutil

import pytest

from pivotal import PivotalError, Question, RunFolder
from pivotal.jobs.find import find
from pivotal.searches import LearnedMask
from pivotal.serve.answers import predict
from pivotal.serve.requests import SentenceRequest, UnitValues
from pivotal.serve.runs import LiveRuns


def test_runs_are_found_and_a_damaged_one_hides_no_other(planted_run, tmp_path):
    for name in ("good", "damaged", "empty"):
        shutil.copytree(planted_run, tmp_path / name)
    (tmp_path / "damaged" / "run.json").write_text("{")
    shutil.rmtree(tmp_path / "empty" / "interventions")
    runs = LiveRuns([], str(tmp_path))
    listed = {entry["name"]: entry for entry in runs.listed()}
    assert set(listed) == {"good", "damaged"} and listed["good"]["finished"]
    assert "run.json" in listed["damaged"]["error"]
    with pytest.raises(PivotalError, match=r"run\.json"):
        runs.opened(listed["damaged"]["run"])
    assert runs.opened(listed["good"]["run"], 1)["which"] == 1


def test_a_folder_of_runs_is_compared(planted_run, tmp_path):
    for name in ("a", "b"):
        shutil.copytree(planted_run, tmp_path / "runs" / name)
    (tmp_path / "runs" / "b" / "report.html").unlink(missing_ok=True)
    runs = LiveRuns([str(tmp_path / "runs"), str(planted_run)], "")
    assert runs.compared and not LiveRuns([str(planted_run)], "").compared
    listed = {entry["name"]: entry for entry in runs.listed()}
    assert set(listed) == {"a", "b", planted_run.name} and not listed["b"]["report"]
    summary = RunFolder(planted_run).summary()
    assert listed["a"]["units"] == summary.units and listed["a"]["kl"] == summary.kl
    assert summary.verdict is not None and listed["a"]["verdict"] == summary.verdict.word
    shutil.copytree(planted_run, tmp_path / "runs" / "c")  # one that is begun later
    assert len(runs.listed()) == 4
    shutil.copytree(planted_run, tmp_path / "study" / "runs" / "cell" / "seeds-0-1")
    (tmp_path / "study" / "study.json").write_text("{}")
    assert [entry["name"] for entry in LiveRuns([str(tmp_path / "study")], "").listed()] == ["cell/seeds-0-1"]
    with pytest.raises(PivotalError, match="is not a run folder"):
        LiveRuns([str(tmp_path)], "")


def test_links_and_pipes_in_a_folder_are_not_read(planted_run, tmp_path):
    secret = tmp_path / "secret.html"
    secret.write_text("mine")
    for name in ("linked", "pipe", "plain"):
        shutil.copytree(planted_run, tmp_path / "runs" / name)
    (tmp_path / "runs" / "linked" / "report.html").unlink()
    (tmp_path / "runs" / "linked" / "report.html").symlink_to(secret)
    (tmp_path / "runs" / "pipe" / "run.json").unlink()
    os.mkfifo(tmp_path / "runs" / "pipe" / "run.json")
    (tmp_path / "runs" / "elsewhere").symlink_to(tmp_path)  # a folder without a run
    runs = LiveRuns([], str(tmp_path / "runs"))
    listed = {entry["name"]: entry for entry in runs.listed()}
    assert set(listed) == {"linked", "pipe", "plain"} and "pipe" in listed["pipe"]["error"]
    assert runs.report(listed["linked"]["run"]) is None and not runs.opened(listed["linked"]["run"])["report"]
    assert runs.report(listed["plain"]["run"]) is not None


def test_units_in_another_basis_are_set_too(tmp_path):
    question = Question("planted", "planted", sites="hidden.0@pca", test=81)
    search = LearnedMask(max_units=3.0, updates=20, refit=4)
    find(question, search, controls=0, evidence="none", out=str(tmp_path / "run"))
    runs = LiveRuns([str(tmp_path / "run")], "")
    opened, live = runs.opened(0), runs.live(0)
    units = [UnitValues(about.unit, about.values) for about in opened["units"]]
    assert all(unit.unit.startswith("hidden.0@pca:") for unit in units)
    pair = opened["pairs"][0]
    asked = SentenceRequest(run=0, sentence=pair["prefix"], words=pair["words"], units=units)
    assert predict(live, asked)["kl"] > 0
