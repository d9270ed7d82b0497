"""Folders of one study, of several machines, become one folder that says the same as if one machine had run it."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_study import Said, rows_in, tiny
from tests.processes import locked_elsewhere

from pivotal import Intervention, PivotalError, RunFolder, study
from pivotal.jobs.study import merge as merging
from pivotal.jobs.study.job import dry_run
from pivotal.jobs.study.merge import merge
from pivotal.records.serial import encode, replace
from pivotal.records.study import FAILED, StudyRow


def write_rows(folder: Path, rows: tuple[StudyRow, ...]) -> None:
    (folder / "results.jsonl").write_text("".join(encode(row, indent=0) + "\n" for row in rows))


@pytest.fixture
def lanes(finished: Path, tmp_path: Path) -> Callable[[], list[Path]]:
    """The finished study in two folders: one has the cells of the first model, the other those of the second."""

    def make() -> list[Path]:
        found = []
        for model in ("planted", "planted:1"):
            lane = Path(shutil.copytree(finished, tmp_path / model.replace(":", "-")))
            mine = tuple(row for row in rows_in(finished) if row.model == model)
            for folder in {row.folder for row in rows_in(finished)} - {row.folder for row in mine}:
                shutil.rmtree(lane / str(folder))
            write_rows(lane, mine)
            found.append(lane)
        return found

    return make


def test_two_lanes_are_the_whole_study(lanes, finished, tmp_path):
    out = tmp_path / "whole"
    done = merge(tiny(), lanes(), out=out)
    assert (out / "results.jsonl").read_text() == (finished / "results.jsonl").read_text()
    assert (done.taken, done.finished, done.runs) == (8, 8, 8)
    for row in done.rows:
        assert RunFolder(out / str(row.folder)).summary() == RunFolder(finished / str(row.folder)).summary()
    said = Said()
    assert not study(tiny(), out=out, watch=said).failed and said.cells == []


def test_a_later_lane_is_added_and_nothing_is_taken_twice(lanes, tmp_path):
    (first, second), out = lanes(), tmp_path / "whole"
    merge(tiny(), [first], out=out, light=True)
    left = dry_run(tiny(), out=out).batches
    assert {batch.cell.question.model for batch in left} == {"planted:1"}
    write_rows(first, tuple(replace(row, accuracy=0.0) for row in rows_in(first)))
    done = merge(tiny(), [second, first], out=out, light=True)
    assert done.taken == 4 and all(row.accuracy for row in done.rows)


def test_a_light_copy_has_the_interventions_only(lanes, tmp_path):
    out = tmp_path / "light"
    rows = merge(tiny(), lanes(), out=out, light=True).rows
    names = {path.name for path in (out / "runs").rglob("*") if path.is_file()}
    assert names == {"card.json", "values.safetensors"}
    found = Intervention.load(out / str(rows[0].folder) / "interventions" / "0")
    assert [str(unit) for unit in found.units] == [str(unit) for unit in rows[0].found]
    again = merge(tiny(), [out], out=tmp_path / "again", light=True)
    assert again.rows == rows and (tmp_path / "again" / str(rows[0].folder) / "interventions").is_dir()
    assert not dry_run(tiny(), out=out).batches
    ablated = tiny(("max_units: 3}", "max_units: 3, ablation: true}"))
    plan = dry_run(ablated, out=out, only="planted, every")
    assert [plan.done(cell) for cell in plan.cells] == [0], "the copies have no ablation"
    study(ablated, out=out, only="planted, every")
    assert not dry_run(ablated, out=out, only="planted, every").batches


def test_failed_runs_and_cells_of_other_recipes_are_left_out(lanes, tmp_path):
    first, second = lanes()
    write_rows(
        first, tuple(replace(row, status=FAILED, error="no", key=row.key[::-1]) for row in rows_in(first))
    )
    shutil.rmtree(first / "runs")
    failed = tuple(replace(row, status=FAILED, error="no") for row in rows_in(second))
    write_rows(second, failed)
    shutil.rmtree(second / "runs")
    done = merge(tiny(), [first, second], out=tmp_path / "whole")
    assert (done.taken, done.rows) == (0, ())


def test_a_run_that_was_begun_here_keeps_its_folder(lanes, finished, tmp_path):
    first, _ = lanes()
    out = tmp_path / "whole"
    merge(tiny(), [first], out=out)
    row = rows_in(out)[0]
    begun = out / str(row.folder)
    (begun / "summary.json").unlink()
    write_rows(out, ())
    rows = merge(tiny(), [first], out=out).rows
    assert rows[0].folder == f"{row.folder}-2" and (begun / "run.json").is_file()
    assert RunFolder(out / str(rows[0].folder)).finished
    assert {one.folder for one in dry_run(tiny(), out=out).rows.values()} == {one.folder for one in rows}


def test_a_run_that_is_being_changed_is_not_copied(lanes, tmp_path):
    first, _ = lanes()
    there = first / str(rows_in(first)[0].folder)
    with locked_elsewhere(there), pytest.raises(PivotalError, match="is working on the run in"):
        merge(tiny(), [first], out=tmp_path / "whole")


def test_rows_are_those_of_the_copies(lanes, tmp_path, monkeypatch):
    """A run may get evidence between the reading of its row and the copy."""
    first, _ = lanes()
    there = RunFolder(first / str(rows_in(first)[0].folder))
    copied = merging._copied

    def changed(*given: Any) -> str:
        there.write_json("summary.json", replace(there.summary(), clean_accuracy=0.125))
        return copied(*given)

    monkeypatch.setattr(merging, "_copied", changed)
    rows = merge(tiny(), [first], out=tmp_path / "whole").rows
    assert [row.clean_accuracy for row in rows if row.folder == rows[0].folder] == [0.125] * len(
        rows[0].batch
    )
    assert rows == rows_in(tmp_path / "whole")


def test_links_are_not_followed(lanes, tmp_path):
    first, _ = lanes()
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "notes.txt").write_text("mine")
    home = first / str(rows_in(first)[0].folder)
    (home / "interventions" / "beside").symlink_to(secret)
    (home / "more.txt").symlink_to(secret / "notes.txt")
    merge(tiny(), [first], out=tmp_path / "whole")
    assert not [path for path in (tmp_path / "whole").rglob("*") if path.name in ("notes.txt", "more.txt")]


def test_a_folder_must_be_a_study_and_another_one(lanes, tmp_path):
    first, _ = lanes()
    (tmp_path / "empty").mkdir()
    with pytest.raises(PivotalError, match=r"empty has no study\.json"):
        merge(tiny(), [first, tmp_path / "empty"], out=tmp_path / "whole")
    assert not (tmp_path / "whole").exists()
    with pytest.raises(PivotalError, match="Leave it out of the list"):
        merge(tiny(), [first], out=first)
