"""Readers of files in other formats. Each file in this folder with a `Reader` adds one."""

from __future__ import annotations

from pathlib import Path

import msgspec

from pivotal.errors import PivotalError
from pivotal.files import read_text
from pivotal.questions.pairs_file import delimiter_of, without_stated_delimiter
from pivotal.questions.readers.base import Part, Reader, ReadOptions, Sample
from pivotal.registry import Registry

__all__ = ["READERS", "Part", "ReadOptions", "Reader", "hint", "reader_of"]

READERS: Registry[Reader] = Registry(
    "readers",
    "pivotal.questions.readers",
    Reader,  # type: ignore[type-abstract]
)
_NARROW_FIRST = ("blimp", "syntaxgym", "circuits", "table", "sentences")
_LONG = 4_000_000
"""The most characters of a JSON document that is parsed to recognise it."""


def reader_of(spec: str | Path, reading: ReadOptions | None = None) -> Reader | None:
    """The reader of `name:PATH`; None if the name is no reader's."""
    name, colon, path = str(spec).partition(":")
    if name not in READERS or (not colon and Path(name).exists()):
        return None
    if not path:
        raise PivotalError(f"'{name}' reads files and needs to know where they are. Write {name}:PATH.")
    return READERS.get(name)(path, reading or ReadOptions())


def hint(path: Path) -> str:
    """A sentence to append to a message about a file that is no pairs file, if it has the format of a reader."""
    if not path.exists():
        return ""
    sample = _sample(path)
    for name in [*_NARROW_FIRST, *(name for name in READERS.names() if name not in _NARROW_FIRST)]:
        if READERS.get(name).recognises(sample):
            return f" This looks like the format of '{name}': use {name}:{path}."
    return ""


def _sample(path: Path) -> Sample:
    if path.is_dir():
        inside = next((file for file in sorted(path.glob("*.jsonl")) if file.is_file()), None)
        return Sample(path, "") if inside is None else Sample(path, "", _sample(inside).keys)
    try:
        text = read_text(path)
    except PivotalError:
        return Sample(path, "")
    return Sample(path, text[:65_536], _keys(text))


def _keys(text: str) -> frozenset[str]:
    first = without_stated_delimiter(text).lstrip().partition("\n")[0]
    for part in (first, text if len(text) <= _LONG else ""):
        try:
            content = msgspec.json.decode(part)
        except (msgspec.DecodeError, RecursionError):
            continue
        if isinstance(content, dict) and isinstance(content.get("prompts"), list):
            content = content["prompts"]
        if isinstance(content, list) and content:
            content = content[0]
        return frozenset(content) if isinstance(content, dict) else frozenset()
    delimiter = "\t" if "\t" in first else delimiter_of(".csv", text)
    return frozenset(cell.strip().strip('"') for cell in first.split(delimiter))
