"""Files: text, atomic writes, and messages about failed writes."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import secrets
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO

from pivotal.errors import PivotalError, in_short


def asset(*names: str) -> Path:
    """The path of a bundled file or folder, such as `asset("recipes")`."""
    return Path(str(resources.files("pivotal"))).joinpath("assets", *names)


def models_home() -> Path:
    """The folder of the local models, which are known by name: `$PIVOTAL_HOME/models`, or `~/.cache/pivotal/models`."""
    home = os.environ.get("PIVOTAL_HOME")
    return (Path(home) if home else Path.home() / ".cache" / "pivotal") / "models"


def slug(*parts: str) -> str:
    """A name for a file or a folder, from texts: letters, digits, dots and hyphens."""
    return "-".join(re.sub(r"[^\w.]+", "-", part).strip("-") for part in parts)


# -- writing -------------------------------------------------------------------------------------------------


def write_atomically(path: Path, write: Callable[[Path], Any]) -> None:
    """Write a file so that readers see the old file or the complete new one, even if the process is killed.

    The file is written under a new, random name and then renamed. A link at `path`, or at a name that somebody could
    guess, is therefore never written through: a folder from somebody else may hold links to files of the user.
    """
    partial = path.with_name(f".{secrets.token_hex(8)}.partial")
    os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        mode = partial.stat().st_mode
        with library_errors(path):
            write(partial)
        os.chmod(partial, stat.S_IMODE(mode))  # safetensors makes files that other users cannot read
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def is_partial(path: Path) -> bool:
    """Whether a killed process left this file behind while it wrote another file."""
    return re.fullmatch(r"\.[0-9a-f]{16}\.partial", path.name) is not None


def remove_partials(folder: Path) -> None:
    """Remove the files that killed processes left in a folder. Call this with the lock of the folder."""
    for path in folder.iterdir():
        if is_partial(path):
            path.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically, and create its folder if necessary."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically, and create its folder if necessary."""
    with disk(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, lambda partial: partial.write_bytes(content))


@contextmanager
def replaced(folder: Path) -> Iterator[Path]:
    """A new folder, which takes the place of `folder` at the end of the block. If that fails, nothing changes."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.", suffix=".partial") as beside:
        new, former = Path(beside) / "new", Path(beside) / "former"
        new.mkdir()
        yield new
        if folder.exists():
            os.rename(folder, former)
        try:
            os.rename(new, folder)
        except BaseException:  # what is beside is about to be removed
            if former.exists():
                os.rename(former, folder)
            raise


def check_output(path: Path, *, overwrite: bool) -> Path:
    """The path of a file that a command is to write, checked before any work. An existing file is replaced only if the
    user says so: it may be something else than an earlier output of the same command."""
    with disk(path):  # a name may be too long, or a folder may not be readable
        if not path.parent.is_dir() or path.is_dir():
            wrong = f"{path} is a folder" if path.is_dir() else f"there is no folder {path.parent}"
            raise PivotalError(f"{path} cannot be written: {wrong}. Name a file in an existing folder.")
        if path.exists() and not overwrite:
            raise PivotalError(
                f"{path} exists already, and nothing was written. Name another file, or replace it with --overwrite."
            )
    return path


def inside(folder: Path, *parts: str) -> Path:
    """The path of a file in a folder of ours. PivotalError if a folder between the two is a link, because the file
    would then be written somewhere else."""
    path = folder
    for part in Path(*parts).parts:
        if path != folder and path.is_symlink():
            raise _is_link(path)
        path = path / part
    return path


def open_to_append(path: Path) -> TextIO:
    """Open a text file of ours for reading and appending; create it if necessary. A link is refused."""
    if path.is_symlink():
        raise _is_link(path)
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    opened = os.open(path, flags, 0o666)
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise PivotalError(f"{path} must be a plain file, but it is not. Remove it.")
    return os.fdopen(opened, "a+", encoding="utf-8")


def _is_link(path: Path) -> PivotalError:
    return PivotalError(f"{path} is a link. Nothing was written. Remove it, or replace it with its target.")


@contextmanager
def library_errors(path: Path) -> Iterator[None]:
    """Turn what torch and safetensors raise when a file cannot be written, e.g. on a full disk, into an OSError."""
    try:
        yield
    except Exception as error:
        # Compared by name, because this module imports neither. Subclasses of RuntimeError mean something else.
        if type(error) is not RuntimeError and type(error).__name__ != "SafetensorError":
            raise
        raise OSError(f"{path.name} could not be written ({in_short(error)})") from None


@contextmanager
def disk(path: Path) -> Iterator[None]:
    """Turn an error of the disk within the block, such as a full disk, into a PivotalError about `path`."""
    try:
        yield
    except OSError as error:
        raise PivotalError(
            f"Cannot write {error.filename or path}: {error.strerror or error}. Free space, change the permissions, or "
            "name another folder (--out; for models, PIVOTAL_HOME). Saved files are kept."
        ) from None


# -- reading -------------------------------------------------------------------------------------------------


_MOST_TEXT = 2**27
"""The most bytes of a compressed text, so that a small file cannot fill the memory."""


@contextmanager
def reading(path: Path, *, pipes: bool = False, missing: str = "") -> Iterator[None]:
    """Turn an error of reading a file within the block into a PivotalError; `missing` is its message if there is no
    such file. `pipes` is as in `check_plain`."""
    check_plain(path, pipes=pipes)
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise PivotalError(missing or f"{path}: there is no such file.") from None
    except (OSError, ValueError) as error:  # a ValueError, if a path holds a NUL byte
        raise PivotalError(f"{path} cannot be read ({getattr(error, 'strerror', None) or error}).") from None


def check_plain(path: Path, *, pipes: bool = False) -> None:
    """PivotalError if the path is a device, which may never end, or a pipe, which may never begin. `pipes` allows them,
    for files that the user names: `<(command)` is one. A path that does not exist is left to the reader."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) or (stat.S_ISFIFO(mode) and not pipes):
        raise PivotalError(f"{path} must be a plain file, but it is a device or a pipe. Give a file.")


def read_bytes(path: Path) -> bytes:
    """The content of a file; of a .gz file, what it holds."""
    with reading(path, pipes=True):
        data = path.read_bytes()
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        with gzip.open(io.BytesIO(data)) as file:
            text = file.read(_MOST_TEXT + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise PivotalError(f"{path}: not a readable gzip file ({in_short(error)}).") from None
    if len(text) > _MOST_TEXT:
        raise PivotalError(f"{path}: a compressed file may hold 128 MiB of text at most. Divide it.")
    return text


def identity(path: Path) -> dict[str, Any]:
    """Name, size and SHA-256 of a file: its identity, independent of its folder."""
    digest, size = hashlib.sha256(), 0
    with reading(path), path.open("rb") as file:  # no pipe, which can be read once only
        while block := file.read(2**20):
            digest.update(block)
            size += len(block)
    return {"file": path.name, "bytes": size, "sha256": digest.hexdigest()}


def suffix_of(path: Path) -> str:
    """The suffix that tells the format, in lower case: `.jsonl` for pairs.jsonl and for pairs.jsonl.gz."""
    return (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()


def read_text(path: Path) -> str:
    """Read a text file in UTF-8, or in UTF-16 with a byte order mark. It may be compressed (.gz)."""
    data = read_bytes(path)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            data = data.decode("utf-16").encode("utf-8")
        except UnicodeDecodeError:
            raise PivotalError(f"{path} begins as UTF-16 text, but is not. Save it as UTF-8.") from None
    try:
        text = data.decode("utf-8-sig")
        if "\0" not in text:
            return text
        offset, wrong = data.index(0), "a zero byte"
    except UnicodeDecodeError as error:
        offset, wrong = error.start, f"byte 0x{data[error.start]:02x}"
    line, column = data.count(b"\n", 0, offset) + 1, offset - data.rfind(b"\n", 0, offset)
    raise PivotalError(f"{path}, line {line}, column {column}: {wrong} is not UTF-8 text. Save it as UTF-8.")


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
    whole = isinstance(value, float) and value.is_integer()  # 3.0 is 3 in another file
    return "not set" if value is None else str(int(value) if whole else value)
