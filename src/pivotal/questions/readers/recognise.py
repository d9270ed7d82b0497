"""Recognise files in other formats, to name the reader that the user should write before the path."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from pivotal.errors import PivotalError
from pivotal.files import read_text
from pivotal.questions.pairs_file import delimiter_of, without_stated_delimiter
from pivotal.questions.readers.base import Reader, Sample

_ORDER = ("blimp", "syntaxgym", "circuits", "dataset", "table", "sentences")
"""Readers of narrow formats come first."""
_LONG = 4_000_000
"""The most characters of a JSON document that is parsed to recognise it."""


def recognised(path: Path, readers: Iterable[tuple[str, type[Reader]]]) -> str | None:
    """The name of the reader whose format a file or folder has; None if it has none of them."""
    sample = _sample(path)
    by_name = dict(readers)
    for name in [*_ORDER, *(name for name in by_name if name not in _ORDER)]:
        if name in by_name and by_name[name].recognises(sample):
            return name
    return None


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
            content = json.loads(part)
        except (ValueError, RecursionError):
            continue
        if isinstance(content, dict) and isinstance(content.get("prompts"), list):
            content = content["prompts"]
        if isinstance(content, list) and content:
            content = content[0]
        return frozenset(content) if isinstance(content, dict) else frozenset()
    delimiter = "\t" if "\t" in first else delimiter_of(".csv", text)
    return frozenset(cell.strip().strip('"') for cell in first.split(delimiter))
