"""Results as data frames of pandas."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.report.study_rows import row, unit

import pivotal
from pivotal import PivotalError, RunFolder
from pivotal.jobs.runs import newest_run
from pivotal.jobs.study.job import Studied
from pivotal.records import frame
from pivotal.records.study import flat
from pivotal.report.study import study_csv

pandas = pytest.importorskip("pandas")


def rows_of(made: Any) -> list[dict[str, Any]]:
    """The rows of a data frame of pandas, which is what is installed."""
    assert isinstance(made, pandas.DataFrame)
    return made.to_dict("records")


def test_a_library_is_needed(monkeypatch):
    assert rows_of(frame.to_frame([{"a": 1}])) == [{"a": 1}]
    monkeypatch.setattr(frame, "find_spec", lambda name: None)
    with pytest.raises(PivotalError, match=r"needs pandas or polars; neither .*pip install pandas"):
        frame.to_frame([{"a": 1}])


def test_results_as_rows(folder):
    summary = folder.summary()
    runs = rows_of(summary.to_frame())
    assert [one["best"] for one in runs] == [run == summary.best for run in range(2)]
    assert runs[0]["unit_names"].split() == list(summary.runs[0].unit_labels)
    problem = pivotal.Problem(pivotal.load_model("planted"), pivotal.load_phenomenon("planted")[:40])
    pairs = rows_of(pivotal.evaluate(folder.intervention(), problem).to_frame())
    assert len(pairs) == 40 and all((one["edited_log_odds"] > 0) == one["flipped"] for one in pairs)
    found = pivotal.searches.Greedy(max_units=2).solve(problem, runs=1, seed=0)
    units = rows_of(found.to_frame())
    assert [one["unit"] for one in units] == [str(unit) for unit in found.best.units]
    assert set(units[0]) > set(problem.labels)


def test_a_study_has_the_rows_of_its_csv():
    rows = (row({"KL term": "without"}, 0, found=[unit(123, 0.5, -1.0)]),)
    (line,) = rows_of(Studied("study", rows).to_frame())
    assert line["unit_names"] == "hidden.0:122" and line["cell: KL term"] == "without"
    assert study_csv(rows).splitlines()[0].split(",") == list(flat(rows)[0])
    assert study_csv(()).startswith("model,")


def test_a_folder_of_runs_is_one_table_and_the_newest_is_known(folder, tmp_path):
    with pytest.raises(PivotalError, match=r"There is no run in .*none"):
        newest_run(tmp_path / "none")
    for name, time in (("a", 2e9), ("b", 1e9)):
        copy = Path(shutil.copytree(folder.path, tmp_path / "runs" / name))
        os.utime(copy / "run.json", (time, time))
    assert newest_run(tmp_path / "runs").name == "a"
    listed = rows_of(pivotal.runs(tmp_path / "runs"))
    assert [Path(one["path"]).name for one in listed] == ["a", "b"]
    assert listed[0]["flip_accuracy"] == folder.summary().flip_accuracy
    assert RunFolder(str(tmp_path / "runs" / "a")).settings == folder.settings
