"""Readers of files in other formats. Each file in this folder with a `Reader` adds one."""

from __future__ import annotations

from pathlib import Path

from pivotal.errors import PivotalError
from pivotal.questions.readers.base import Part, Reader, ReadOptions
from pivotal.registry import Registry

__all__ = ["READERS", "Part", "ReadOptions", "Reader", "reader_of"]

READERS: Registry[Reader] = Registry(
    "readers",
    "pivotal.questions.readers",
    Reader,  # type: ignore[type-abstract]
)


def reader_of(spec: str | Path, reading: ReadOptions | None = None) -> Reader | None:
    """The reader of `name:PATH`; None if the name is no reader's."""
    name, colon, path = str(spec).partition(":")
    if name not in READERS or (not colon and Path(name).exists()):
        return None
    if not path:
        raise PivotalError(f"'{name}' reads files and needs to know where they are. Write {name}:PATH.")
    return READERS.get(name)(path, reading or ReadOptions())
