"""`pivotal find`: what it prints, what it writes, what it refuses."""

import json
import os
import shutil
import signal
import subprocess
import sys
from typing import Any

import pytest
from tests.finished_run import FIND
from tests.processes import Process, locked_elsewhere, until

from pivotal import PivotalError, RunFolder
from pivotal.cli.find import with_options
from pivotal.searches import choose, default_search


@pytest.mark.slow
def test_the_result_is_a_sentence_tables_and_a_place(pivotal, tmp_path):
    done = pivotal(*FIND, "--runs", "2", "--out", tmp_path / "r")
    assert done.code == 0
    assert "3 of 64 units switch planted in planted: set at every step they flip 100% of 303" in done.out
    tables = ("Units", "hidden.0:", "2 of 2", "Runs", "class 0", "→ plural", "Fidelity: of the gap")
    for part in (*tables, "Control, best run: 99 random sets", "Next: Make the missing checks"):
        assert part in done.out
    assert f"read {tmp_path / 'r' / 'report.html'}" in done.out
    assert "learn 1/60" in done.err and "scoring" in done.err
    run = json.loads((tmp_path / "r" / "run.json").read_text())
    assert run["command"] == f"pivotal {' '.join(FIND)} --runs 2 --out {tmp_path / 'r'}"
    assert run["seeds"] == [0, 1]


@pytest.mark.parametrize("json_flag", [True, False])
def test_a_finished_run_is_shown_again_and_not_run(pivotal, own_run, json_flag):
    def state():
        return {path: path.stat().st_mtime_ns for path in own_run.rglob("*")}

    before = state()
    done = pivotal(*FIND, "--runs", "2", "--out", own_run, *(["--json"] if json_flag else []))
    assert done.code == 0
    assert f"This run was already finished: {own_run}. Use --overwrite to run it again." in done.err
    assert "learn" not in done.err
    if json_flag:
        assert done.json == json.loads((own_run / "summary.json").read_text())
    else:
        assert "3 of 64 units switch planted" in done.out and f"The run folder is {own_run}" in done.out
    assert state() == before


def test_a_run_that_died_before_its_report_is_completed(pivotal, own_run, tmp_path):
    """Killed, or out of disk space, after summary.json and before report.html."""
    died = tmp_path / "r"
    shutil.copytree(own_run, died, ignore=shutil.ignore_patterns("report.html", "figures"))
    (died / "checkpoint.pt").write_bytes(b"of the search that finished")
    done = pivotal(*FIND, "--runs", "2", "--out", died)
    assert done.code == 0 and f"read {died / 'report.html'}" in done.out
    assert sorted(p.name for p in died.iterdir()) == sorted(p.name for p in own_run.iterdir())
    assert (died / "summary.json").read_bytes() == (own_run / "summary.json").read_bytes()


def test_another_run_in_the_folder(pivotal, own_run):
    before = (own_run / "summary.json").read_bytes()
    done = pivotal(*FIND, "--runs", "3", "--out", own_run)
    done.refused("holds another run", "runs is 2 there and 3 here")
    assert "Held-out pairs" not in done.err, "said before anything about the pairs"
    assert (own_run / "summary.json").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["plantd"], ["'plantd'", "Did you mean 'planted'?"]),
        (["planted", "planted", "--max-units", "0"], ["max_units is a number of units, 1 or more", "it is 0"]),
        (["planted", "planted", "--max-units", "65"], ["64 units", "max_units is 65"]),
        (["planted", "planted", "-o", "updates"], ["-o NAME=VALUE"]),
        (["planted", "planted", "--updates", "3", "-o", "updates=4"], ["given twice"]),
        (["planted", "planted", "--sites", "hiden"], ["'hiden' matches none", "Did you mean 'hidden'?"]),
        (["planted", "planted", "--device", "abacus"], ["'abacus'", "Use cpu"]),
        (["planted", "planted", "--runs", "0"], ["runs must be a whole number, 1 to 10,000"]),
        (["planted", "planted", "--runs", str(2**63)], ["1 to 10,000, but it is 9223372"]),
        (["planted", "planted", "--keep", ""], ["--keep is empty"]),
        (["planted", "number-agreement"], ["cannot score any of the", "outside the vocabulary"]),
    ],
)  # fmt: skip
def test_bad_input(pivotal, tmp_path, arguments, parts):
    pivotal("find", *arguments, "--out", tmp_path / "r").refused(*parts)
    assert not (tmp_path / "r").exists()


def test_options_go_over_the_preset():
    paper = choose("learned", "paper", {})
    changed = choose("learned", "paper", with_options({"kl_weight": 0.5}, ["updates=7"]))
    assert paper.loss == "ratio"
    assert (changed.kl_weight, changed.updates, changed.loss) == (0.5, 7, "ratio")
    with pytest.raises(PivotalError):
        with_options({"kl_weight": 0.5}, ["kl_weight=1"])


def test_without_a_search_the_default_is_taken_or_the_one_that_has_the_option():
    assert default_search(None, {"max_units": 3}) == "exchange"
    assert default_search("paper", {}) == default_search(None, {"updates": 5}) == "learned"


@pytest.mark.parametrize(
    ("given", "values"),
    [(("--preset", "paper"), "unbounded"), (("--preset", "paper", "--values", "natural"), "natural")],
)
def test_the_papers_preset_sets_units_to_any_value_unless_values_are_given(pivotal, tmp_path, given, values):
    short = ("-o", "updates=1", "-o", "refit=1", "--controls", "0", "--evidence", "none")
    done = pivotal("find", "planted", "planted", *given, *short, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    assert "Without random sets the verdict is 'no evidence' at best" in done.err
    assert RunFolder(tmp_path / "run").summary().values == values


LONG = ("find", "planted", "planted", "--updates", "200", "-o", "refit=10", "--test", "303", "-q")
"""Long enough to be stopped, on a busy machine too."""


@pytest.mark.slow
def test_a_signal_stops_a_real_process_and_the_same_command_resumes(pivotal, tmp_path):
    folder = tmp_path / "stopped"
    stopped = Process("pivotal", *LONG, "--out", folder)
    history = folder / "history.jsonl"
    until(lambda: stopped.poll() or (history.exists() and history.read_text().count("\n") > 5))
    stopped.send_signal(signal.SIGTERM)
    out, err = stopped.communicate()
    assert stopped.returncode == 143, err
    assert out == "" and "Traceback" not in err
    assert f"Resume with: pivotal {' '.join(LONG)} --out {folder}" in err
    assert (folder / "checkpoint.pt").exists()
    assert (folder / "interventions" / "0" / "card.json").exists()
    assert pivotal(*LONG, "--out", folder).code == 0 and RunFolder(folder).finished


@pytest.mark.parametrize("verb", ["find", "compare", "atlas"])
def test_no_other_process_can_change_a_folder_before_its_report_is_written(
    pivotal, tmp_path, monkeypatch, verb
):
    writers = {"find": "page.write_report", "compare": "study.write_study", "atlas": "atlas.site.write_site"}
    refusals = []

    def write(folder: Any) -> None:
        with (
            pytest.raises(PivotalError, match="is working on") as refused,
            locked_elsewhere(tmp_path / "out"),
        ):
            pass
        refusals.append(refused.value)

    monkeypatch.setattr(f"pivotal.report.{writers[verb]}", write)
    (tmp_path / "recipe.yaml").write_text(
        "name: tiny\ndefaults: {model: planted, phenomenon: planted, known: true, evidence: none, controls: 0}\n"
        "grid: {budget: [{label: one, max_units: 1, updates: 2, refit: 1}]}\n"
    )
    quick = ("--updates", "2", "-o", "refit=1", "--controls", "0", "--evidence", "none")
    arguments: dict[str, tuple[Any, ...]] = {
        "find": ("planted", "planted", *quick),
        "compare": ("planted", "planted", "--searches", "attribution", "--max-units", "1"),
        "atlas": (tmp_path / "recipe.yaml",),
    }
    done = pivotal(verb, *arguments[verb], "--out", tmp_path / "out", "-q")
    assert done.code == 0 and len(refusals) == 1, done.err


@pytest.mark.slow
def test_a_closed_pipe_ends_quietly(tmp_path):
    command = [sys.executable, "-m", "pivotal", "list", "searches"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    assert "Traceback" not in process.stderr.read()
    process.wait(300)


ADDING = (*FIND, "--runs", "2", "-q")


@pytest.mark.parametrize(
    "line",
    [
        ("certify",),
        ("show", "--page"),
        (*ADDING, "--evidence", "full", "--out"),
        (*ADDING, "--controls", "120", "--out"),
        (*ADDING, "--overwrite", "--out"),
    ],
    ids=["certify", "page", "evidence", "controls", "overwrite"],
)
def test_a_folder_that_another_process_has_is_left_alone(pivotal, own_run, line):
    with locked_elsewhere(own_run):
        before = {path: path.read_bytes() for path in own_run.rglob("*") if path.is_file()}
        pivotal(*line, own_run).refused(f"Process {os.getpid()} is working on the run in {own_run}")
        assert {path: path.read_bytes() for path in own_run.rglob("*") if path.is_file()} == before


def test_a_question_in_the_place_of_the_model_is_told(pivotal):
    for question in ("number-agreement", "mine.csv", "mine.yaml"):
        pivotal("find", question).refused(f"name it after the model, such as wiki-lstm {question}.")
    pivotal("find", "wiki-lstn").refused("Did you mean 'wiki-lstm'?")
