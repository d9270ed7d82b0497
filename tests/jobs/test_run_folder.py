"""The run folder: nothing is lost, no foreign file is touched, and a run that was killed can be resumed."""

import math
import signal
import time
from contextlib import closing
from dataclasses import replace
from math import isnan, nan
from pathlib import Path

import numpy as np
import pytest
import torch

from pivotal import Intervention, PivotalError, RunFolder
from pivotal.jobs.checkpoint import History, RunCheckpoint
from pivotal.jobs.preparation import default_path
from pivotal.jobs.runs import newest_run, read_run
from pivotal.problem.batch import Work
from pivotal.searches import Discovery, Progress
from pivotal.stopping import Interrupted, Stop
from pivotal.units import Unit

SETTINGS = {"model": "planted", "seed": 0, "search": {"name": "learned", "max_units": 3}}


def intervention(value: float = 0.5) -> Intervention:
    units, values = (Unit("hidden.0", 4), Unit("hidden.0", 7)), np.array([[value, -value], [-value, value]])
    about, active = ("every", "planted", "m", "planted", "d"), np.array([[True, False], [True, True]])
    return Intervention(units, ("singular", "plural"), values, *about, active=active)


def files(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


def test_open_gives_back_what_create_wrote(tmp_path):
    made = RunFolder.create(tmp_path / "a" / "b", SETTINGS, {"command": "pivotal find"})
    found = RunFolder(tmp_path / "a" / "b")
    assert found == made
    assert found.settings == SETTINGS
    assert found.info.command == "pivotal find"
    assert {"python", "pivotal", "torch"} <= set(found.info.versions)


def test_another_run_is_refused_with_what_differs_and_nothing_is_touched(tmp_path):
    RunFolder.create(tmp_path, SETTINGS)
    before = files(tmp_path)
    other = {**SETTINGS, "seed": 1, "search": {"name": "learned", "max_units": 5}}
    said = r"seed is 0 there and 1 here; search\.max_units is 3 there and 5"
    with pytest.raises(PivotalError, match=said) as error:
        RunFolder.check_free(tmp_path, other, overwrite=False)
    assert "--overwrite" in str(error.value) and "--out" in str(error.value)
    assert files(tmp_path) == before
    RunFolder.check_free(tmp_path, other, overwrite=True)
    assert RunFolder.of_job(tmp_path, other) is None and RunFolder.of_job(tmp_path, SETTINGS) is not None


@pytest.mark.parametrize("name", ["thesis.tex", "report.html"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_with_foreign_files_is_refused(tmp_path, name, overwrite):
    (tmp_path / name).write_text("years of work")
    with pytest.raises(PivotalError, match=rf"holds other files \({name}\)"):
        RunFolder.check_free(tmp_path, SETTINGS, overwrite=overwrite)
    assert files(tmp_path) == {name: b"years of work"}


def test_overwrite_removes_only_what_a_run_makes(tmp_path):
    """Users keep files of their own in a run folder, also beside figures and interventions."""
    folder = RunFolder.create(tmp_path, SETTINGS, {"seeds": [0, 1]})
    folder.save_interventions([intervention(), intervention()])
    folder.write_json("summary.json", {})
    folder.write_text("traces.json", "{}")
    folder.write_text("figures/values.svg", "<svg/>")
    mine = (
        *("notes.txt", "figures/mine.png", "figures/mine.svg", "interventions/2024/photo.jpg"),
        *("interventions/2024/card.json", "interventions/0/notes.txt", "interventions/learned-3/0/card.json"),
    )
    for name in mine:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("mine")
    again = RunFolder.create(tmp_path, {**SETTINGS, "seed": 1})
    assert set(files(tmp_path)) == {"run.json", *mine}
    assert not (tmp_path / "interventions" / "1").exists()
    assert RunFolder(tmp_path).settings == again.settings


def test_a_damaged_run_is_not_touched_by_overwrite(tmp_path):
    """Which interventions are its own is stated in its run.json."""
    RunFolder.create(tmp_path, SETTINGS).save_interventions([intervention()])
    (tmp_path / "run.json").write_text('{"format": "piv')
    before = files(tmp_path)
    said = r"run\.json must be JSON.* Remove the folder, or name another with --out"
    with pytest.raises(PivotalError, match=said):
        RunFolder.create(tmp_path, SETTINGS)
    assert files(tmp_path) == before


@pytest.mark.parametrize("name", ["interventions", "interventions/0", "figures"])
def test_overwrite_removes_nothing_behind_a_link(tmp_path, name):
    folder = RunFolder.create(tmp_path / "run", SETTINGS, {"seeds": [0]})
    intervention().save(tmp_path / "mine" / "0")
    intervention().save(tmp_path / "mine")
    (tmp_path / "mine" / "values.svg").write_text("mine")
    (folder.path / name).parent.mkdir(exist_ok=True)
    (folder.path / name).symlink_to(tmp_path / "mine")
    before = files(tmp_path / "mine")
    folder.discard()
    assert files(tmp_path / "mine") == before


def test_not_a_run_folder(tmp_path):
    RunFolder.create(tmp_path / "number", SETTINGS)
    folders = {"nowhere": "no folder .*nowhere", "numbr": "Did you mean .*/number", "": "lists those in it"}
    for name, said in folders.items():
        with pytest.raises(PivotalError, match=said):
            RunFolder(tmp_path / name)
    (tmp_path / "run.json").write_text('{"format": "other"}')
    with pytest.raises(PivotalError, match="format cannot be"):
        RunFolder(tmp_path)


def test_a_path_that_cannot_be_written_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PivotalError, match=r"Cannot write .*file"):
        RunFolder.create(tmp_path / "file" / "run", SETTINGS)


def test_default_path_goes_on_with_its_run_and_avoids_others(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = default_path("lakretz:some/where", "every", "planted:3", SETTINGS)
    assert first == Path("runs/lakretz-some-where-every-planted-3")
    RunFolder.create(first, SETTINGS)
    assert default_path("lakretz:some/where", "every", "planted:3", SETTINGS) == first
    # As `--overwrite` does before it removes the other files.
    (first / "run.json").rename(first / ".run.json")
    assert default_path("lakretz:some/where", "every", "planted:3", SETTINGS) == first
    (first / ".run.json").rename(first / "run.json")
    other = default_path("lakretz:some/where", "every", "planted:3", {**SETTINGS, "seed": 9})
    assert other == Path("runs/lakretz-some-where-every-planted-3-2")
    other.write_text("mine")
    assert default_path("lakretz:some/where", "every", "planted:3", {**SETTINGS, "seed": 9}) == Path(
        f"{first}-3"
    )


def test_history_is_cut_back_to_the_checkpoint(tmp_path):
    folder = RunFolder.create(tmp_path, SETTINGS)
    history = History(folder)
    checkpoint = RunCheckpoint(folder, history, work := Work(), Stop())
    history.append(Progress("learn", 1, 9, [nan], [2.0], [0.5]))
    work.forward = 70
    checkpoint.save({"update": 1, "interventions": (intervention(),)})
    history.append(Progress("learn", 2, 9, [0.1], [2.0], [0.5]))
    history.close()
    with (tmp_path / "history.jsonl").open("a") as file:
        file.write('{"cut o')
    assert [row.update for row in folder.history()] == [1, 2]

    history = History(folder)
    checkpoint = RunCheckpoint(folder, history, again := Work(), Stop())
    state = checkpoint.load()
    assert state == {"update": 1} and again.forward == 70
    history.append(Progress("learn", 20, 90))
    history.close()
    first, last = folder.history()
    assert first.update == 1 and isnan(first.loss[0]) and last == Progress("learn", 20, 90)


def test_a_signal_at_any_moment_loses_nothing(tmp_path, monkeypatch):
    """It comes after the checkpoint was found not to be due: the next step saves the state, and stops then."""
    folder = RunFolder.create(tmp_path, SETTINGS)
    stop = Stop()
    with closing(History(folder)) as history, pytest.raises(Interrupted), stop.deferred():
        checkpoint = RunCheckpoint(folder, history, Work(), stop)
        now = time.monotonic()

        def late() -> float:
            stop.handle(signal.SIGINT, None)
            return now

        monkeypatch.setattr("pivotal.jobs.checkpoint.time.monotonic", late)
        checkpoint.between_steps(lambda: {"update": 1})
        monkeypatch.undo()
        assert stop.requested and not (tmp_path / "checkpoint.pt").exists()
        checkpoint.between_steps(lambda: {"update": 2})
    assert (tmp_path / "checkpoint.pt").is_file()


def test_what_was_reached_can_be_used_before_the_run_is_finished(tmp_path):
    folder = RunFolder.create(tmp_path, SETTINGS)
    checkpoint = RunCheckpoint(folder, History(folder), Work(), Stop())
    checkpoint.save({"interventions": (intervention(0.5), intervention(0.25))})
    assert [folder.intervention(), folder.intervention(1)] == [intervention(0.5), intervention(0.25)]
    with pytest.raises(PivotalError, match=r"runs 0 to 1, but no run 2"):
        folder.intervention(2)


def test_the_end_of_the_search_survives_a_kill(tmp_path):
    units = (Unit("hidden.0", 4), Unit("head.1", 2, 4))
    heads = replace(intervention(), units=units, values=np.arange(10.0).reshape(2, 5))
    folder = RunFolder.create(tmp_path, SETTINGS)
    found = Discovery((intervention(), heads), (math.inf, 0.5), ({"hard": {"accuracy": 1.0}}, {}))
    with closing(History(folder)) as history:
        RunCheckpoint(folder, history, Work(), Stop()).finish(found)
    with closing(History(folder)) as history:
        again = RunCheckpoint(folder, history, Work(), Stop())
    assert again.discovery() == found and found.best_run == 1 and again.load() is None


def test_a_kill_while_the_first_file_is_written_does_not_block_the_folder(tmp_path):
    (tmp_path / f".{'0a' * 8}.partial").write_text('{"format": "pivo')
    RunFolder.check_free(tmp_path, SETTINGS, overwrite=False)
    RunFolder.create(tmp_path, SETTINGS)
    assert RunFolder(tmp_path).settings == SETTINGS
    assert not list(tmp_path.rglob("*.partial"))


@pytest.mark.parametrize("name", ["figures", "interventions", "history.jsonl"])
def test_nothing_is_written_through_a_link_in_the_folder(tmp_path, name):
    """A run folder from somebody else may hold links to the user's own files."""
    folder = RunFolder.create(tmp_path / "run", SETTINGS)
    treasure = tmp_path / "treasure"
    treasure.mkdir()
    (treasure / "row").write_text("mine\n")
    (folder.path / name).symlink_to(treasure / "row" if name == "history.jsonl" else treasure)
    writes = {
        "figures": lambda: folder.write_text("figures/values.svg", "<svg/>"),
        "interventions": lambda: folder.save_interventions([intervention()]),
        "history.jsonl": lambda: History(folder),
    }
    with pytest.raises(PivotalError, match=rf"{name} is a link"):
        writes[name]()
    assert files(treasure) == {"row": b"mine\n"}


@pytest.mark.parametrize(
    "change", [None, {"record": 3}, {"other": 3}, {"state": 3}, {"train_score": "x"}], ids=str
)
def test_a_damaged_checkpoint_is_refused(tmp_path, change):
    folder = RunFolder.create(tmp_path, SETTINGS)
    history = History(folder)
    RunCheckpoint(folder, history, Work(), Stop()).save({"step": 3})
    path = tmp_path / "checkpoint.pt"
    if change is None:
        path.write_bytes(path.read_bytes()[:100])
    else:
        torch.save({**torch.load(path, weights_only=True), **change}, path)
    with pytest.raises(PivotalError, match=r"not a checkpoint of this run.*--overwrite"):
        RunCheckpoint(folder, history, Work(), Stop())


def test_a_run_whose_removal_was_killed_is_removed_by_the_next(tmp_path):
    RunFolder.create(tmp_path, {"seed": 1}).write_text("summary.json", "{}")
    (tmp_path / "run.json").rename(tmp_path / ".run.json")
    RunFolder.check_free(tmp_path, {"seed": 2}, overwrite=False)
    made = RunFolder.create(tmp_path, {"seed": 2})
    assert made.settings == RunFolder(tmp_path).settings == {"seed": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_what_is_read_is_of_one_run_though_another_takes_its_place(tmp_path):
    RunFolder.create(tmp_path, {"seed": 1}).save_interventions([intervention(0.1)])
    seen = []

    def read(folder: RunFolder) -> tuple[int, Intervention]:
        seen.append(seed := folder.settings["seed"])
        if seed < 3:
            RunFolder.create(tmp_path, {"seed": seed + 1}).save_interventions([intervention(0.2)])
        return seed, folder.intervention(0) if seed != 2 else folder.report.read_bytes()

    assert read_run(tmp_path, read) == (3, intervention(0.2)) and seen == [1, 2, 3]
    (tmp_path / "run.json").rename(tmp_path / ".run.json")
    with pytest.raises(PivotalError, match="Another run is replacing the one in"):
        read_run(tmp_path, read)


def test_the_newest_run_is_found_though_another_is_removed_meanwhile(tmp_path, monkeypatch):
    RunFolder.create(tmp_path / "there", SETTINGS)
    paths = [tmp_path / "gone", tmp_path / "there"]
    monkeypatch.setattr("pivotal.jobs.runs.run_paths", lambda folder: paths)
    assert newest_run(tmp_path) == tmp_path / "there"
