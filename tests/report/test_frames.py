"""Results as data frames: pandas, or polars if only that is installed. The tests bring a stand-in for both."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from tests.report.study_rows import row, unit

import pivotal as pv
from pivotal.errors import PivotalError
from pivotal.jobs.run_folder import RunFolder, newest_run
from pivotal.records import frame
from pivotal.report.study import StudyFolder, _lines, study_csv

STAND_IN = "class DataFrame(list):\n    library = __name__\n"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on Python's path, in which a library is a module. No other pandas or polars is found."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(frame, "find_spec", lambda name: (tmp_path / f"{name}.py").is_file() or None)
    for name in ("pandas", "polars"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def test_pandas_comes_before_polars_and_one_is_needed(installed: Path) -> None:
    with pytest.raises(PivotalError, match=r"needs pandas or polars, but neither .*pip install pandas"):
        frame.to_frame([{"a": 1}])
    for name in ("polars", "pandas"):
        (installed / f"{name}.py").write_text(STAND_IN)
        made = frame.to_frame([{"a": 1}])
        assert (made.library, list(made)) == (name, [{"a": 1}])


def test_results_as_rows(installed: Path, folder: RunFolder) -> None:
    (installed / "pandas.py").write_text(STAND_IN)
    summary = folder.summary()
    runs = summary.to_frame()
    assert [one["best"] for one in runs] == [run == summary.best for run in range(2)]
    assert runs[0]["unit_names"].split() == list(summary.runs[0].unit_labels)
    problem = pv.Problem(pv.load_model("planted"), pv.load_phenomenon("planted")[:40])
    pairs = pv.evaluate(folder.intervention(), problem).to_frame()
    assert len(pairs) == 40 and all((one["edited_log_odds"] > 0) == one["flipped"] for one in pairs)
    found = pv.Greedy(max_units=2).solve(problem, runs=1, seed=0)
    assert [one["unit"] for one in found.to_frame()] == [str(unit) for unit in found.best.units]
    assert set(found.to_frame()[0]) > set(problem.labels)


def test_a_study_has_the_rows_of_its_csv(installed: Path) -> None:
    (installed / "pandas.py").write_text(STAND_IN)
    rows = (row({"KL term": "without"}, 0, found=[unit(123, 0.5, -1.0)]),)
    (line,) = StudyFolder.to_frame(type("Study", (), {"rows": rows}))  # type: ignore[arg-type]
    assert line["unit_names"] == "hidden.0:122" and line["cell: KL term"] == "without"
    assert study_csv(rows).splitlines()[0].split(",") == list(_lines(rows)[0])
    assert study_csv(()).startswith("model,")


def test_a_folder_of_runs_is_one_table_and_the_newest_is_known(
    installed: Path, folder: RunFolder, tmp_path: Path
) -> None:
    (installed / "pandas.py").write_text(STAND_IN)
    with pytest.raises(PivotalError, match=r"There is no run in .*none"):
        newest_run(tmp_path / "none")
    for name, time in (("a", 2e9), ("b", 1e9)):
        copy = Path(shutil.copytree(folder.path, tmp_path / "runs" / name))
        os.utime(copy / "run.json", (time, time))
    assert newest_run(tmp_path / "runs").name == "a"
    listed = pv.runs(tmp_path / "runs")
    assert [Path(one["path"]).name for one in listed] == ["a", "b"]
    assert listed[0]["flip_accuracy"] == folder.summary().flip_accuracy
    assert RunFolder(str(tmp_path / "runs" / "a")).settings == folder.settings
