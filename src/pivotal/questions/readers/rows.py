"""The rows of tables and JSON files in other formats."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from pivotal.errors import PivotalError, in_short
from pivotal.files import read_text, suffix_of
from pivotal.questions.pairs_file import (
    DELIMITERS,
    JSON_SUFFIXES,
    BadRows,
    json_lines,
    table_rows,
)

Row = dict[str, Any]
T = TypeVar("T")

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
        return table_rows(path, text, bad)
    first = text.lstrip().partition("\n")[0].rstrip()
    if suffix == ".json" and not (first.startswith("{") and first.endswith("}") and "\n{" in text):
        return _document_rows(path)
    return json_lines(msgspec.json.Decoder(Row), path, text, bad)


def json_file(path: Path, kind: type[T], rule: str) -> T:
    """The content of a JSON file, which the rule describes. Errors name the file and, if it is not JSON, the line."""
    data = read_text(path).encode()
    try:
        return msgspec.json.decode(data, type=kind)
    except RecursionError:
        raise PivotalError(f"{path}: {rule}, but this is nested too deeply.") from None
    except msgspec.DecodeError as error:
        byte = re.search(r"\(byte (\d+)\)", str(error))
        where = f"{path}, line {data[: int(byte[1])].count(10) + 1}" if byte else str(path)
        raise PivotalError(f"{where}: {rule}, but it is not ({str(error).replace('`', '')}).") from None


def _document_rows(path: Path) -> Iterator[tuple[str, Row]]:
    rule = "the file must hold a JSON list with at least one object"
    content = json_file(path, list[Row] | Row, rule)  # type: ignore[arg-type]
    if isinstance(content, dict):
        inside = [content[key] for key in _INSIDE if isinstance(content.get(key), list)]
        content = inside[0] if inside else [content]
    if not content or not all(isinstance(row, dict) for row in content):
        raise PivotalError(f"{path}: {rule}, but it does not.")
    return ((f"{path}, entry {number}", row) for number, row in enumerate(content, start=1))


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
