"""`pivotal show`: one run in the terminal."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest


def test_a_finished_run(pivotal: Any, run_folder: Path) -> None:
    done = pivotal("show", run_folder)
    assert done.code == 0
    summary = json.loads((run_folder / "summary.json").read_text())
    best = summary["runs"][summary["best"]]
    for part in (
        "planted in planted, units set at every step",
        "Sites all; values natural; 81 held-out pairs, split by prefixes; 2 runs from seed 0",
        "Search learned: max_units=4",
        "3 of 64 units switch planted",
        *best["unit_labels"],
        *(f"{value:+.2f}".replace("-", "−") for value in best["values"]["plural"]),
        "summary.json",
        "report.html",
    ):
        assert part in done.out, part


def test_json(pivotal: Any, run_folder: Path) -> None:
    shown = json.loads(pivotal("show", run_folder, "--json").out)
    assert shown["finished"] and shown["summary"] == json.loads((run_folder / "summary.json").read_text())
    assert shown["settings"]["search"]["name"] == "learned"
    assert shown["command"].startswith("pivotal find planted planted")
    assert {"summary.json", "run.json", "interventions"} <= set(shown["files"])


def test_an_unfinished_run_says_how_to_resume_it(pivotal: Any, run_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(run_folder, tmp_path / "r")
    (tmp_path / "r" / "summary.json").unlink()
    done = pivotal("show", tmp_path / "r")
    assert done.code == 0 and "not finished. To resume it: pivotal find planted planted" in done.out
    shown = json.loads(pivotal("show", tmp_path / "r", "--json").out)
    assert not shown["finished"] and shown["summary"] is None


def test_what_is_not_a_run(pivotal: Any, tmp_path: Path) -> None:
    pivotal("show", tmp_path).refused("not a run folder")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"best": 7}, "Run 7 is the best run, but there are 2 runs".lower()),
        ({"median": -1}, "run -1 is the median run"),
        ({"labels": ["singular", "dual"]}, "one number per unit and direction"),
        ({"runs": []}, "there are 0 runs"),
    ],
)
def test_a_summary_whose_parts_do_not_fit_together_is_refused(
    pivotal: Any, run_folder: Path, tmp_path: Path, change: dict[str, object], said: str
) -> None:
    shutil.copytree(run_folder, tmp_path / "r")
    summary = json.loads((tmp_path / "r" / "summary.json").read_text())
    (tmp_path / "r" / "summary.json").write_text(json.dumps(summary | change))
    for verb in ("show", "report"):
        pivotal(verb, tmp_path / "r").refused("summary.json", said)


def test_a_run_without_its_settings_is_refused(pivotal: Any, run_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(run_folder, tmp_path / "r")
    run = json.loads((tmp_path / "r" / "run.json").read_text())
    (tmp_path / "r" / "run.json").write_text(json.dumps(run | {"settings": {}}))
    pivotal("show", tmp_path / "r").refused("run.json must state the setting 'search', but it is None")
    pivotal("report", tmp_path / "r").refused("run.json must state the setting 'model', but it is None")
    settings = run["settings"] | {"runs": [1]}
    (tmp_path / "r" / "run.json").write_text(json.dumps(run | {"settings": settings}))
    pivotal("show", tmp_path / "r").refused("run.json must state the setting 'runs', but it is [1]")
