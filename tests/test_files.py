"""Writing files: nothing goes through a link, leftovers are removed, and every library's full disk is one error."""

import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from tests.processes import locked_elsewhere

from pivotal import PivotalError
from pivotal.files import (
    check_plain,
    disk,
    inside,
    open_to_append,
    read_text,
    remove_partials,
    replaced,
    write_atomically,
    write_text,
)
from pivotal.folders import locked


def test_a_folder_that_cannot_be_replaced_stays(tmp_path, monkeypatch):
    folder, rename = tmp_path / "model", os.rename
    folder.mkdir()
    (folder / "weights").write_text("old")

    def full(source: Path, target: Path) -> None:
        if source.name == "new":
            raise OSError(28, "No space left on device")
        rename(source, target)

    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(OSError, match="No space"), replaced(folder) as new:
        (new / "weights").write_text("new")
    assert (folder / "weights").read_text() == "old" and list(tmp_path.iterdir()) == [folder]


@pytest.fixture
def treasure(tmp_path: Path) -> Path:
    path = tmp_path / "treasure"
    path.write_text("mine")
    return path


def test_a_link_is_replaced_and_its_target_is_left_alone(tmp_path, treasure):
    page = tmp_path / "page.html"
    page.symlink_to(treasure)
    write_text(page, "new")
    assert treasure.read_text() == "mine" and page.read_text() == "new" and not page.is_symlink()


def test_a_folder_on_the_way_may_not_be_a_link_but_the_outermost_may(tmp_path):
    real, run = tmp_path / "disk", tmp_path / "run"
    (real / "figures").mkdir(parents=True)
    run.symlink_to(real)
    assert inside(run, "figures", "a.svg") == run / "figures" / "a.svg"
    (real / "figures" / "more").symlink_to(tmp_path)
    with pytest.raises(PivotalError, match=r"more is a link.*Nothing was written"):
        inside(run, "figures/more/a.svg")


def test_only_a_plain_file_is_opened_to_append(tmp_path, treasure):
    with open_to_append(tmp_path / "rows") as file:
        file.write("one\n")
    with open_to_append(tmp_path / "rows") as file:
        file.write("two\n")
    assert (tmp_path / "rows").read_text() == "one\ntwo\n"
    (tmp_path / "link").symlink_to(treasure)
    with pytest.raises(PivotalError, match="is a link"):
        open_to_append(tmp_path / "link")
    assert treasure.read_text() == "mine"


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no /dev/zero")
def test_a_device_that_never_ends_is_refused(tmp_path):
    (tmp_path / "zero").symlink_to("/dev/zero")
    for path in (Path("/dev/zero"), tmp_path / "zero"):
        with pytest.raises(PivotalError, match="a device or a pipe"):
            read_text(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_read_where_the_user_names_it_and_refused_in_a_folder(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    check_plain(tmp_path / "pipe", pipes=True)
    with pytest.raises(PivotalError, match="a device or a pipe"):
        check_plain(tmp_path / "pipe")
    check_plain(tmp_path / "nothing")


def test_only_our_leftovers_are_removed(tmp_path):
    ours, users = tmp_path / f".{'0a' * 8}.partial", tmp_path / "thesis.partial"
    for path in (ours, users):
        path.write_text("x")
    remove_partials(tmp_path)
    assert not ours.exists() and users.exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    "save",
    [
        lambda _: Path("/dev/full").write_text("x" * 10_000),
        lambda _: torch.save({"a": torch.zeros(10_000)}, "/dev/full"),
        lambda path: save_file({"a": np.zeros(3)}, path / "no such folder" / "file"),
    ],
    ids=["text", "torch", "safetensors"],
)
def test_every_library_reports_a_failed_write_as_one_sentence(tmp_path, save):
    target = tmp_path / "file"
    target.write_text("old")
    with (
        pytest.raises(PivotalError, match=r"^Cannot write .*Free space.*Saved files are kept\.$"),
        disk(target),
    ):
        write_atomically(target, save)
    assert target.read_text() == "old" and list(tmp_path.iterdir()) == [target]


@pytest.mark.skipif(os.name == "nt", reason="modes are those of POSIX")
def test_files_have_the_mode_that_the_user_asked_for(tmp_path):
    """safetensors alone makes files that only the owner reads."""
    (tmp_path / "plain").write_text("x")
    write_atomically(tmp_path / "values", lambda partial: save_file({"a": np.zeros(3)}, partial))
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "values")}
    assert len(modes) == 1


def test_a_lock_can_be_taken_while_another_process_gives_it_back(tmp_path, monkeypatch):
    """That process removes its lock, and the folder if it is empty, at any moment."""
    folder, make, look, seen = tmp_path / "one", Path.mkdir, os.fstat, [0, 0]

    def gone(path: Path, *given: Any, **named: Any) -> None:
        seen[0] += 1
        if seen[0] == 1:
            raise FileExistsError(path)  # it was there, and is not any more
        make(path, *given, **named)

    def removed(number: int) -> os.stat_result:
        seen[1] += 1
        if seen[1] == 2:  # after it was opened and locked
            (folder / ".lock").unlink()
        return look(number)

    monkeypatch.setattr(Path, "mkdir", gone)
    monkeypatch.setattr(os, "fstat", removed)
    with pytest.raises(PivotalError, match=r"^full$"), locked(folder):
        assert (folder / ".lock").is_file()
        monkeypatch.setattr(Path, "unlink", lambda *_, **__: os.listdir("no/such/folder"))  # the disk is gone
        raise PivotalError("full")


def test_a_folder_has_one_lock_and_a_refused_process_leaves_nothing(tmp_path):
    pytest.importorskip("fcntl")
    folder = tmp_path / "runs" / "one"
    with locked_elsewhere(folder):
        before = {path: path.read_bytes() for path in folder.iterdir()}
        with (
            pytest.raises(PivotalError, match=rf"^Process {os.getpid()} is working on the run in"),
            locked(folder),
        ):
            pass
        assert {path: path.read_bytes() for path in folder.iterdir()} == before
    assert not (tmp_path / "runs").exists(), "it was made for the lock, and nothing was written there"
    with locked(folder), locked(folder):
        (folder / "run.json").write_text("{}")
    assert [path.name for path in folder.iterdir()] == ["run.json"]
