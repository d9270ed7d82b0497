"""Files: text, atomic writes, locks, and the message when the disk refuses."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any, TextIO

from pivotal.errors import PivotalError

PARTIAL = ".partial"
"""The suffix of a file that is being written. A kill may leave one behind."""


def asset(*names: str) -> Path:
    """The path of something bundled with the package, such as `asset("recipes")`."""
    return Path(str(resources.files("pivotal"))).joinpath("assets", *names)


def models_home() -> Path:
    """The folder of the local models, which are known by name: `$PIVOTAL_HOME/models`, or `~/.cache/pivotal/models`."""
    home = os.environ.get("PIVOTAL_HOME")
    return (Path(home) if home else Path.home() / ".cache" / "pivotal") / "models"


# -- writing -------------------------------------------------------------------------------------------------


def write_atomically(path: Path, write: Callable[[Path], Any]) -> None:
    """Readers of `path` see the old file or the whole new one, even after a kill."""
    partial = path.with_name(path.name + PARTIAL)
    try:
        write(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically, and make the folder that it belongs to."""
    with disk(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, lambda partial: partial.write_text(text, encoding="utf-8"))


@contextmanager
def disk(path: Path) -> Iterator[None]:
    """A full disk or a folder that may not be written is bad luck, not a bug: say so in a sentence."""
    try:
        yield
    except OSError as error:
        raise PivotalError(
            f"Cannot write {error.filename or path}: {error.strerror or error}. "
            "Make room, get the right to write, or name another folder with --out; what was saved stays."
        ) from None


def lock(file: TextIO, folder: Path, kind: str = "run") -> None:
    """Held until the file is closed, or its process ends, however it ends."""
    try:
        import fcntl
    except ImportError:  # Windows has other locks; there we go without
        return
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise PivotalError(
            f"Another process is working on the {kind} in {folder}. Wait for it, or name another with --out."
        ) from None
    except OSError:  # some network file systems know no locks
        return


# -- reading -------------------------------------------------------------------------------------------------


def read_text(path: Path) -> str:
    """The UTF-8 text of a file (a byte order mark is dropped)."""
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
    """Line and column, from 1, of a byte."""
    return data.count(b"\n", 0, offset) + 1, offset - (data.rfind(b"\n", 0, offset) + 1) + 1


def differences(there: Mapping[str, Any], here: Mapping[str, Any], within: str = "") -> list[str]:
    """What differs between two settings, in words."""
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
