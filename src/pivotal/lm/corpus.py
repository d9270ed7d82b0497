"""Read text files, plain or compressed, as blocks of whole lines. Imported by worker processes: no torch here."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import zlib
from collections.abc import Iterator
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any

from pivotal.errors import PivotalError
from pivotal.files import check_plain

BLOCK = 8 * 2**20
"""Bytes of text in a block: large enough to keep a worker busy, small enough to divide a file among workers."""


def blocks(path: Path) -> Iterator[bytes]:
    """The text of a file in blocks that end with a line."""
    rest = b""
    damage: tuple[type[Exception], ...] = (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile)
    if path.suffix == ".zst":
        damage += (_zstd(path).ZstdError,)
    try:
        with _open(path) as file:
            while block := file.read(BLOCK):
                if b"\0" in block:
                    raise PivotalError(
                        f"A corpus is text, but {path} holds NUL bytes: it is binary, or compressed without a known "
                        "ending. Known endings are .gz, .xz and .zst; all other files are read as plain text."
                    )
                cut = block.rfind(b"\n") + 1
                if cut:
                    yield rest + block[:cut]
                    rest = block[cut:]
                else:
                    rest += block
    except FileNotFoundError:
        raise PivotalError(f"There is no corpus file {path}.") from None
    except damage as error:
        raise PivotalError(
            f"{path} must be a complete compressed file, but it is damaged or truncated ({error}). Copy it again."
        ) from None
    except OSError as error:
        raise PivotalError(f"{path} cannot be read ({error.strerror or error}).") from None
    if rest:
        yield rest + b"\n"


def text_of(block: bytes, source: str) -> str:
    try:
        return block.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PivotalError(
            f"A corpus is UTF-8 text, but {source} is not ({error.reason}: byte {block[error.start]:#04x}). "
            "Convert it, e.g. with iconv."
        ) from None


def identity(path: Path) -> dict[str, Any]:
    """Name, size and SHA-256 of a file: its identity, independent of its folder."""
    digest, size = hashlib.sha256(), 0
    check_plain(path)  # the file is read more than once, which a pipe does not allow
    try:
        with path.open("rb") as file:
            while block := file.read(2**20):
                digest.update(block)
                size += len(block)
    except FileNotFoundError:
        raise PivotalError(f"There is no file {path}.") from None
    except OSError as error:
        raise PivotalError(f"{path} cannot be read ({error.strerror or error}).") from None
    return {"file": path.name, "bytes": size, "sha256": digest.hexdigest()}


def _open(path: Path) -> Any:
    check_plain(path, pipes=True)
    if path.suffix == ".gz":
        return gzip.open(path, "rb")
    if path.suffix == ".xz":
        return lzma.open(path, "rb")
    if path.suffix == ".zst":
        zstd = _zstd(path)
        return BufferedReader(_Frames(path)) if zstd.__name__ == "zstandard" else zstd.open(path, "rb")
    return path.open("rb")


class _Frames(RawIOBase):
    """The frames of a .zst file in sequence, as Python 3.14 reads them. The package zstandard alone would accept a
    truncated file."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._begin = _zstd(path).ZstdDecompressor().decompressobj
        self._frame = self._begin()
        self._fresh, self._text = True, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._text:
            packed = self._frame.unused_data or self._file.read(2**14)
            if self._frame.eof:
                self._frame, self._fresh = self._begin(), True
            if not packed:
                if self._fresh:
                    return 0
                raise EOFError("it ends inside a frame")
            self._text, self._fresh = self._frame.decompress(packed), False
        part = self._text[: len(buffer)]
        buffer[: len(part)] = part
        self._text = self._text[len(part) :]
        return len(part)

    def close(self) -> None:
        self._file.close()
        super().close()


def _zstd(path: Path) -> Any:
    """Part of Python from 3.14 on, before that a package."""
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]

        return zstd
    except ImportError:
        pass
    try:
        import zstandard  # type: ignore[import-not-found,unused-ignore]

        return zstandard
    except ImportError:
        raise PivotalError(
            f"Reading {path} needs Python 3.14 or the package zstandard. "
            "Run `pip install pivotal[zst]`, or decompress the file with `unzstd`."
        ) from None
