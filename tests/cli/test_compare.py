"""`pivotal compare`: what it prints, what it writes, what it refuses."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import COMPARE, Outcome
from tests.processes import Process, until


@pytest.mark.slow
def test_the_result_is_a_sentence_tables_and_a_place(pivotal: Any, tmp_path: Path) -> None:
    done = pivotal(*COMPARE, "--max-units", "3,1", "--runs", "2", "--mode", "both", "--out", tmp_path / "c")
    assert done.code == 0
    for part in (
        "with at most 3 units learned flips 100.0 ± 0.0%, learned@paper ",
        "Flipped by units allowed, mean ± sd of 2 runs (equal budgets)",
        "KL, mean ± sd",
        "Cost: seconds",
        "as many node evaluations as learned takes",
        f"read {tmp_path / 'c' / 'report.html'}",
    ):
        assert part in done.out
    assert "learned@paper, 3 units: learn 1/20" in done.err and "8 of 8 sets of units are found" in done.err
    assert {p.name for p in (tmp_path / "c").iterdir()} == {
        "run.json", "compare.json", "compare.md", "compare.csv", "compare.tex", "compare.svg", "compare.png",
        "report.html", "figures", "interventions",
    }  # fmt: skip
    run = json.loads((tmp_path / "c" / "run.json").read_text())
    assert run["command"].startswith("pivotal compare planted planted --searches learned,learned@paper")


@pytest.mark.slow
def test_json_prints_compare_json_and_nothing_else(pivotal: Any, tmp_path: Path) -> None:
    done = pivotal(*COMPARE, "--max-units", "1", "--runs", "1", "--json", "-q", "--out", tmp_path / "c")
    assert json.loads(done.out) == json.loads((tmp_path / "c" / "compare.json").read_text())
    assert done.err == ""


def test_what_was_found_can_be_evaluated_on_the_held_out_pairs(pivotal: Any, comparison_folder: Path) -> None:
    row = json.loads((comparison_folder / "compare.json").read_text())["rows"][1]
    done = pivotal("evaluate", comparison_folder / row["interventions"] / "1", "--json")
    scores = json.loads(done.out)
    assert scores["pairs"] == {"which": "test", "asked": 81}
    assert scores["flip_accuracy"] == row["runs"][1]["flip_accuracy"]
    pivotal("evaluate", comparison_folder).refused("is a comparison", "interventions/learned-3/0")


@pytest.mark.slow
def test_the_default_folder_is_named_after_the_question(
    pivotal: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    small = (*COMPARE, "--max-units", "1", "--runs", "1", "-q")
    assert pivotal(*small).code == 0
    again = pivotal(*small)
    assert again.code == 0 and "already finished: runs/compare-planted-every-planted" in again.err
    assert len(pivotal(*small, "--overwrite").out.splitlines()) == 2
    assert os.listdir("runs") == ["compare-planted-every-planted"]


def test_another_comparison_in_the_folder(pivotal: Any, comparison_folder: Path) -> None:
    before = (comparison_folder / "compare.json").read_bytes()
    pivotal(*COMPARE, "--max-units", "1,3", "--runs", "3", "--out", comparison_folder).refused(
        "holds another comparison", "runs is 2 there and 3 here"
    )
    assert (comparison_folder / "compare.json").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--searches", "lerned"], ["Did you mean 'learned'?"]),
        (["--searches", "learned,learned"], ["listed twice"]),
        (["--searches", "learned,"], ["a name in 'learned,' is empty"]),
        (["--searches", "learned@papr"], ["Did you mean 'paper'?"]),
        (["--searches", "learned", "--max-units", "1-5"], ["written 1..10", "'1-5'"]),
        (["--searches", "learned", "--max-units", "0"], ["at least one unit"]),
        (["--searches", "learned", "--max-units", "60..70"], ["64 units", "max_units is 65"]),
        (["--searches", "learned", "--runs", "0"], ["--runs"]),
        (["--searches", "learned", "--budget", "5"], ["--mode equal or both"]),
        (["--searches", "learned", "--budget", "0", "--mode", "equal"], ["--budget"]),
        (["--searches", "learned", "-o", "greedy.beam=2"], ["'greedy' in 'greedy.beam=2' is not listed"]),
        (["--searches", "learned", "-o", "updates=2"], ["SEARCH.NAME=VALUE"]),
        (["--searches", "learned", "--max-kl", "-1"], ["max_kl must be above 0"]),
        (["--searches", "learned", "--mode", "fair"], ["--mode"]),
    ],
)  # fmt: skip
def test_bad_input(pivotal: Any, tmp_path: Path, arguments: list[str], parts: list[str]) -> None:
    pivotal("compare", "planted", "planted", *arguments, "--out", tmp_path / "c").refused(*parts)
    assert not (tmp_path / "c").exists()


def rows(folder: Path) -> Any:
    """Of compare.json, without the times."""
    content = json.loads((folder / "compare.json").read_text())
    return content | {"rows": [{k: v for k, v in row.items() if k != "seconds"} for row in content["rows"]]}


LONG = (*COMPARE, "--max-units", "1..2", "--runs", "2", "--mode", "both", "-q")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The rows of the same comparison without an interruption."""
    out = tmp_path_factory.mktemp("whole") / "compared"
    assert Outcome((*LONG, "--out", str(out))).code == 0
    return rows(out)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_real_process_is_stopped_and_goes_on_to_the_same_end(
    pivotal: Any, whole: Any, tmp_path: Path, how: signal.Signals
) -> None:
    folder = tmp_path / "stopped"
    stopped, result = Process("pivotal", *LONG, "--out", folder), folder / "compare.json"
    until(lambda: stopped.poll() or (result.exists() and len(rows(folder)["rows"]) >= 2))
    stopped.send_signal(how)
    out, err = stopped.communicate()
    there = rows(folder)["rows"]
    assert 2 <= len(there) < 8 and out == "" and "Traceback" not in err
    if how != signal.SIGKILL:
        assert stopped.returncode == 128 + how
        assert f"{len(there)} of 8 sets of units are found, saved in {result}" in err
        assert f"Resume with: pivotal {' '.join(LONG)} --out {folder}" in err
    assert pivotal(*LONG, "--out", folder).code == 0
    assert rows(folder) == whole
    assert (folder / "report.html").exists()
