"""Folders that one process at a time writes: their lock, and whether they hold files of somebody else."""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TextIO

from pivotal.errors import PivotalError
from pivotal.files import disk, is_partial, open_to_append

LOCK = ".lock"
"""The file in a folder that its writer holds locked. It is there only while somebody writes."""

_TRIES = 100
"""How often a folder is made again that another process removes."""
_held: set[tuple[int, int, Path]] = set()
"""The locks that are held here: process, thread and folder."""


@contextmanager
def locked(folder: Path, kind: str = "run") -> Iterator[None]:
    """Hold the lock of a folder within the block: one process at a time reads there to decide, and writes.

    If another process holds it, PivotalError names that process, and nothing is written. The folder is created if
    necessary; folders that were created and are still empty at the end are removed. A thread may take a lock that it
    holds already.
    """
    held = (os.getpid(), threading.get_ident(), folder.resolve())
    if held in _held:
        yield
        return
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    with disk(folder):
        file = _acquire(folder, kind)
    _held.add(held)
    try:
        yield
    finally:
        _held.discard(held)
        # Before it is released: the next process makes a file of its own.
        with suppress(OSError):
            (folder / LOCK).unlink()
        file.close()
        for path in created:
            with suppress(OSError):
                path.rmdir()


def check_no_other_files(folder: Path, kind: str, own: Collection[str] = (), option: str = "--out") -> None:
    """Raise PivotalError if a folder that a run, a study or a training would take holds files of somebody else. `own`
    are the names of its own files."""
    with disk(folder):
        foreign = sorted(
            entry.name
            for entry in folder.iterdir()
            if entry.name not in {LOCK, *own} and not is_partial(entry)
        )
    if foreign:
        few = ", ".join(foreign[:3]) + (f" and {len(foreign) - 3} more" if len(foreign) > 3 else "")
        raise PivotalError(
            f"{folder} holds other files ({few}). Nothing was changed; name another for the {kind} with {option}."
        )


def _acquire(folder: Path, kind: str) -> TextIO:
    """The lock file of a folder, locked until it is closed or the process ends."""
    path = folder / LOCK
    for tries in count():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = open_to_append(path)
        except (FileNotFoundError, FileExistsError):  # another process has just removed the folder
            if tries == _TRIES:
                raise
            continue
        try:
            _flock(file)
        except BlockingIOError:
            holder = _holder(file)
            file.close()
            raise PivotalError(
                f"{holder} is working on the {kind} in {folder}. Wait for it, or name another folder with --out."
            ) from None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                break
        file.close()  # the process that held it has removed this file
    file.truncate(0)
    file.write(f"{os.getpid()} {platform.node()}")
    file.flush()
    return file


def _flock(file: TextIO) -> None:
    """Lock a file. Windows and some network file systems have no such locks, and nothing is locked there."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return


def _holder(file: TextIO) -> str:
    """The process that holds a lock, in words. It writes its number just after it takes the lock."""
    for _ in range(20):
        file.seek(0)
        number, _, machine = file.read().partition(" ")
        if number:
            return f"Process {number}" + (f" on {machine}" if machine != platform.node() else "")
        time.sleep(0.01)
    return "Another process"
