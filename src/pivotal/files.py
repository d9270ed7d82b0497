"""Files: text, atomic writes, locks, and messages about failed writes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any, TextIO

from pivotal.errors import PivotalError

PARTIAL = ".partial"
"""The suffix of a file that is being written. A killed process may leave one behind."""


def asset(*names: str) -> Path:
    """The path of a bundled file or folder, such as `asset("recipes")`."""
    return Path(str(resources.files("pivotal"))).joinpath("assets", *names)


def models_home() -> Path:
    """The folder of the local models, which are known by name: `$PIVOTAL_HOME/models`, or `~/.cache/pivotal/models`."""
    home = os.environ.get("PIVOTAL_HOME")
    return (Path(home) if home else Path.home() / ".cache" / "pivotal") / "models"


# -- writing -------------------------------------------------------------------------------------------------


def write_atomically(path: Path, write: Callable[[Path], Any]) -> None:
    """Write a file so that readers see the old file or the complete new one, even if the process is killed."""
    partial = path.with_name(path.name + PARTIAL)
    try:
        write(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically, and create its folder if necessary."""
    with disk(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, lambda partial: partial.write_text(text, encoding="utf-8"))


@contextmanager
def disk(path: Path) -> Iterator[None]:
    """Turn an error of the disk within the block, such as a full disk, into a PivotalError about `path`."""
    try:
        yield
    except OSError as error:
        raise PivotalError(
            f"Cannot write {error.filename or path}: {error.strerror or error}. "
            "Free some space, change the permissions, or name another folder with --out. Saved files are kept."
        ) from None


def lock(file: TextIO, folder: Path, kind: str = "run") -> None:
    """Lock a file until it is closed or the process ends. Raises PivotalError if another process holds the lock."""
    try:
        import fcntl
    except ImportError:  # Windows has no fcntl: no lock there
        return
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise PivotalError(
            f"Another process is working on the {kind} in {folder}. Wait for it, or name another with --out."
        ) from None
    except OSError:  # some network file systems have no locks
        return


# -- reading -------------------------------------------------------------------------------------------------


def read_text(path: Path) -> str:
    """Read a UTF-8 text file, without a byte order mark."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise PivotalError(f"{path}: there is no such file.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise PivotalError(f"{path}: cannot read it ({reason}).") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, column = _place(data, error.start)
        raise PivotalError(
            f"{path}, line {line}, column {column}: the file must be UTF-8 text; byte "
            f"0x{data[error.start]:02x} is not. Save it as UTF-8."
        ) from None
    if "\0" in text:
        line, column = _place(data, data.index(0))
        raise PivotalError(
            f"{path}, line {line}, column {column}: the file must be UTF-8 text; a zero byte is not."
        )
    return text


def _place(data: bytes, offset: int) -> tuple[int, int]:
    """The line and column of a byte, counted from 1."""
    return data.count(b"\n", 0, offset) + 1, offset - (data.rfind(b"\n", 0, offset) + 1) + 1


def differences(there: Mapping[str, Any], here: Mapping[str, Any], within: str = "") -> list[str]:
    """The differences between two settings, in words."""
    found = []
    for key in dict.fromkeys([*there, *here]):
        a, b = there.get(key), here.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            found += differences(a, b, f"{within}{key}.")
        elif a != b:
            found.append(f"{within}{key} is {_shown(a)} there and {_shown(b)} here")
    return found


def _shown(value: Any) -> str:
    return "not set" if value is None else str(value)
