"""`pivotal list`: names, with what is worth knowing of each, and runs."""

import json
import shutil
from pathlib import Path

import pytest

from pivotal.units import MAX_UNITS


@pytest.mark.parametrize(
    ("kind", "known"),
    [
        *(("models", "planted"), ("phenomena", "number-agreement"), ("searches", "learned")),
        *(("masks", "hard-concrete"), ("recipes", "regularisation"), ("exports", "transformer-lens")),
    ],
)
def test_list(pivotal, kind, known):
    done = pivotal("list", kind)
    assert done.code == 0 and known in done.out


def test_the_default_number_of_units_is_the_same_in_find_list_and_python(pivotal):
    from pivotal.models import load_model
    from pivotal.problem.problem import Problem
    from pivotal.questions.phenomena import load_phenomenon
    from pivotal.searches.base import most_units
    from pivotal.searches.exchange import Exchange

    said = f"Default: {MAX_UNITS['every']} at every step, {MAX_UNITS['single']} at a single step."
    assert said in " ".join(pivotal("find", "--help").out.replace("│", " ").split())
    for entry in pivotal("list", "searches", "--json").json["searches"]:
        for option in entry["options"]:
            if option["name"] == "max_units":
                assert option["default"] is None and said in option["help"]
    model, pairs = load_model("planted"), load_phenomenon("planted")
    for steps, most in MAX_UNITS.items():
        assert most_units(Exchange().max_units, Problem(model, pairs, steps=steps)) == most


def test_phenomena_have_labels_and_sizes(pivotal):
    said = pivotal("list", "phenomena").out
    assert "singular / plural" in said and "12,000" in said
    listed = {one["name"]: one for one in pivotal("list", "phenomena", "--json").json["phenomena"]}
    assert listed["number-agreement"]["labels"] == ["singular", "plural"]
    assert listed["number-agreement"]["pairs"] == 12_000
    assert listed["blimp:PATH"]["pairs"] is None


def test_runs(pivotal, run_folder, tmp_path):
    shutil.copytree(run_folder, tmp_path / "a")
    shutil.copytree(run_folder, tmp_path / "b")
    (tmp_path / "b" / "summary.json").unlink()
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "run.json").write_text("{")
    (tmp_path / "notes").mkdir()
    listed = pivotal("list", "runs", tmp_path, "--json").json["runs"]
    assert [(Path(one["path"]).name, one["kind"], one["finished"]) for one in listed] == [
        ("a", "run", True),
        ("b", "run", False),
        ("d", "unreadable", False),
    ]
    summary = json.loads((run_folder / "summary.json").read_text())
    assert listed[0]["flip_accuracy"] == summary["flip_accuracy"] and listed[0]["units"] == summary["units"]
    assert listed[1]["units"] is None and listed[0]["model"] == "planted"
    said = pivotal("list", "runs", tmp_path).out
    assert "planted in planted, every" in said and "unfinished" in said and "100%" in said


def test_studies_are_listed_and_their_runs(pivotal, tmp_path):
    recipe = tmp_path / "small.yaml"
    recipe.write_text(
        "name: small\ndefaults: {model: planted, phenomenon: planted, test: 81, updates: 5, refit: 0}\n"
        "grid: {max_units: [2]}\n"
    )
    assert pivotal("study", recipe, "--out", tmp_path / "all" / "s", "-q").code == 0
    (study,) = pivotal("list", "runs", tmp_path / "all", "--json").json["runs"]
    assert (study["kind"], study["name"], study["done"], study["failed"]) == ("study", "small", 1, 0)
    assert "1 run done" in pivotal("list", "runs", tmp_path / "all").out
    (run,) = pivotal("list", "runs", tmp_path / "all" / "s", "--json").json["runs"]
    assert run["kind"] == "run" and run["finished"]


def test_folders_without_runs(pivotal, tmp_path, monkeypatch):
    assert "There are no runs" in pivotal("list", "runs", tmp_path).out
    monkeypatch.chdir(tmp_path)
    pivotal("list", "runs").refused("There is no folder runs")
    pivotal("list", "models", "runs").refused("`pivotal list runs` only")
