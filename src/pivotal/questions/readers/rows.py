"""The rows of tables and JSON files in other formats."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from pivotal.errors import PivotalError, in_short
from pivotal.files import read_text, suffix_of
from pivotal.questions.pairs_file import (
    DELIMITERS,
    JSON_SUFFIXES,
    BadRows,
    json_lines,
    named_cells,
    table_of,
)

Row = dict[str, Any]
_OBJECT = msgspec.json.Decoder(Row)

BINARY = (".parquet", ".arrow")
SUFFIXES = (*DELIMITERS, *JSON_SUFFIXES, ".json", *BINARY)
_INSIDE = ("data", "items", "examples", "rows", "prompts", "pairs")
"""The keys under which a JSON file may keep its list of rows."""


def rows_of(path: Path, bad: BadRows) -> Iterator[tuple[str, Row]]:
    """The place and the content of every row. Rows that cannot be read are left to `bad`."""
    suffix = suffix_of(path)
    if suffix not in SUFFIXES:
        raise PivotalError(
            f"{path}: a table ends in one of {', '.join(SUFFIXES)}, not '{path.suffix}'. Save it as .csv."
        )
    if suffix in BINARY:
        return _arrow_rows(path, suffix)
    text = read_text(path)
    if not text.strip():
        raise PivotalError(f"{path}: the file must hold at least one row; it is empty.")
    if suffix in DELIMITERS:
        return _table_rows(path, text, bad)
    if suffix == ".json" and (whole := _list_in(path, text)) is not None:
        return whole
    objects = json_lines(_OBJECT, path, text, bad)
    return ((f"{path}, line {number}", row) for number, row in objects)


def json_document(path: Path, text: str) -> Any:
    """The content of a JSON file. Errors name the file, the line and the column."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise PivotalError(
            f"{path}, line {error.lineno}, column {error.colno}: not JSON ({error.msg})."
        ) from error
    except (ValueError, RecursionError):
        raise PivotalError(f"{path}: a number or a nesting is too large.") from None


def _list_in(path: Path, text: str) -> Iterator[tuple[str, Row]] | None:
    """The rows of a JSON document; None if the file has a JSON object on every line instead."""
    try:
        content = json_document(path, text)
    except PivotalError as error:
        if isinstance(error.__cause__, json.JSONDecodeError) and error.__cause__.msg == "Extra data":
            return None
        raise
    if isinstance(content, dict):
        inside = [key for key in _INSIDE if isinstance(content.get(key), list)]
        content = content[inside[0]] if inside else [content]
    if not isinstance(content, list) or not content:
        raise PivotalError(f"{path}: the file must hold a JSON list with at least one entry.")
    for number, row in enumerate(content, start=1):
        if not isinstance(row, dict):
            raise PivotalError(f"{path}, entry {number}: every entry is a JSON object, not {row!r:.60}.")
    return ((f"{path}, entry {number}", row) for number, row in enumerate(content, start=1))


def _table_rows(path: Path, text: str, bad: BadRows) -> Iterator[tuple[str, Row]]:
    _, columns, lines = table_of(path, text)
    for line, cells in lines:
        with bad.row():
            where = f"{path}, line {line}"
            yield where, named_cells(where, columns, cells)


def _arrow_rows(path: Path, suffix: str) -> Iterator[tuple[str, Row]]:
    """The rows of a Parquet or Arrow file, read with the optional library pyarrow."""
    try:
        arrow = importlib.import_module("pyarrow")
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise PivotalError(
            f"{path}: reading {suffix} files needs the library pyarrow, which is not installed. Install "
            "pivotal[parquet], or save the table as .csv."
        ) from None
    try:
        table = parquet.read_table(path) if suffix == ".parquet" else _ipc_table(arrow, path)
        table.validate(full=True)  # pyarrow reads outside of its memory if a file states wrong lengths
        rows = table.to_pylist()
    except FileNotFoundError:
        raise PivotalError(f"{path}: there is no such file.") from None
    except (OSError, ValueError, arrow.ArrowException) as error:
        raise PivotalError(f"{path}: not a readable {suffix} file ({in_short(error)}).") from None
    return ((f"{path}, row {number}", row) for number, row in enumerate(rows, start=1))


def _ipc_table(arrow: Any, path: Path) -> Any:
    """An .arrow file is a stream, as Hugging Face datasets write it, or a file."""
    with arrow.memory_map(str(path)) as source:
        try:
            return arrow.ipc.open_stream(source).read_all()
        except arrow.ArrowInvalid:
            return arrow.ipc.open_file(source).read_all()
