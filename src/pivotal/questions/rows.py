"""The rows of a file: of a table (.csv, .tsv, .parquet), of JSON Lines, or of a list in a JSON document."""

from __future__ import annotations

import csv
import importlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pivotal.errors import PivotalError, in_short
from pivotal.files import read_text, reading, suffix_of
from pivotal.printing import counted
from pivotal.records import serial

Row = dict[str, Any]
T = TypeVar("T")

DELIMITERS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (*DELIMITERS, ".jsonl", ".json", ".parquet")
SKIP = " --skip-bad leaves such rows out."
"""The end of a message about a row that the user may not want to correct."""
OTHER_FORMATS = (
    " If columns hold a good and a bad word or sentence, write table:PATH (and --columns "
    "prefix=COLUMN,good=COLUMN,bad=COLUMN if they have other names). For another format, write its reader before the "
    "path, such as blimp:PATH; `pivotal list phenomena` lists the readers."
)
_INSIDE = ("data", "items", "examples", "rows", "prompts", "pairs")
"""The keys under which a JSON file may keep its list of rows."""
_LISTED = 5
"""The most bad rows that a note lists."""


class BadRows:
    """The rows of a file that cannot be read: collected if `skip` is set; otherwise the first error is raised."""

    def __init__(self, skip: bool) -> None:
        self._skip = skip
        self.errors: list[str] = []

    @contextmanager
    def row(self, where: str) -> Iterator[None]:
        """A block that reads one row. Its errors get the place of the row, and the column that they name."""
        try:
            yield
        except PivotalError as error:
            column = f", column '{error.field}'" if error.field else ""
            message = f"{where}{column}: {error}"
            if not self._skip:
                raise PivotalError(message, error.field) from None
            self.errors.append(message.removesuffix(SKIP))

    def first(self) -> str:
        """The first error, to append to a message; empty if there is none."""
        return f" The first bad row: {self.errors[0]}" if self.errors else ""

    def notes(self) -> tuple[str, ...]:
        """The rows that were left out."""
        if not self.errors:
            return ()
        more = len(self.errors) - _LISTED
        listed = "; ".join(error.rstrip(".") for error in self.errors[:_LISTED])
        count = counted(len(self.errors), "bad row")
        return (f"Left out {count}: {listed}{f'; and {more:,} more' if more > 0 else ''}.",)


def name_of(path: Path) -> str:
    """The name of the set in a file: pairs for pairs.jsonl and for pairs.jsonl.gz."""
    return path.with_suffix("").stem if path.suffix.lower() == ".gz" else path.stem


def rows_of(path: Path, bad: BadRows) -> Iterator[tuple[str, Row]]:
    """The place and the content of every row. Rows that cannot be read are left to `bad`."""
    suffix = suffix_of(path)
    if suffix not in SUFFIXES:
        with reading(path), path.open():  # a path that leads to no file has no format to name
            pass
        said = f"{path}: a pairs file ends in {', '.join(SUFFIXES)}, not '{path.suffix}'. Save it as .csv."
        raise PivotalError(f"{said}{OTHER_FORMATS}")
    if suffix == ".parquet":
        return _parquet_rows(path)
    text = read_text(path)
    if not text.strip():
        raise PivotalError(f"{path}: the file must hold at least one row; it is empty.")
    if suffix in DELIMITERS:
        return _table_rows(path, text, bad)
    first = text.lstrip().partition("\n")[0].rstrip()
    if suffix == ".json" and not (first.startswith("{") and first.endswith("}") and "\n{" in text):
        return _document_rows(path)
    return _json_lines(path, text, bad)


def json_file(path: Path, kind: type[T], rule: str) -> T:
    """The content of a JSON file, which the rule describes. Errors name the file and the place in it."""
    return serial.decode(read_text(path), kind, str(path), rule)


def _json_lines(path: Path, text: str, bad: BadRows) -> Iterator[tuple[str, Row]]:
    # splitlines() would also split at characters that a JSON string may contain.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            where = f"{path}, line {number}"
            with bad.row(where):
                yield where, serial.decode(line, Row, "The line", "Every line holds one JSON object.")


def _document_rows(path: Path) -> Iterator[tuple[str, Row]]:
    rule = "The file must hold a JSON list with at least one object."
    content = json_file(path, list[Row] | Row, rule)  # type: ignore[arg-type]
    if isinstance(content, dict):
        inside = [content[key] for key in _INSIDE if isinstance(content.get(key), list)]
        content = inside[0] if inside else [content]
    if not content or not all(isinstance(row, dict) for row in content):
        raise PivotalError(f"{path}: {rule}")
    return ((f"{path}, entry {number}", row) for number, row in enumerate(content, start=1))


def _table_rows(path: Path, text: str, bad: BadRows) -> Iterator[tuple[str, Row]]:
    """Every row that is not empty, by the names of the columns in the first one."""
    columns: list[str] = []
    for line, cells in _table_lines(path, text):
        where = f"{path}, line {line}"
        if not columns:
            columns = [" ".join(cell.split()) for cell in cells]
            if twice := [column for column in columns if columns.count(column) > 1]:
                raise PivotalError(f"{where}, column '{twice[0]}': The column occurs twice. Remove one.")
            continue
        with bad.row(where):
            if len(cells) != len(columns):
                said = f"The row has {len(cells)} cells for {len(columns)} columns."
                raise PivotalError(f"{said} Quote cells that contain the delimiter.")
            yield where, dict(zip(columns, cells, strict=True))


def _table_lines(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """The number and the cells of every line that is not empty. The delimiter is that of the suffix, or another one in
    the first line: spreadsheets write semicolons to a .csv file where the comma is the decimal mark."""
    head, usual = text.lstrip().partition("\n")[0], DELIMITERS[suffix_of(path)]
    delimiter = usual if usual in head else next((mark for mark in "\t;," if mark in head), usual)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    start = 1
    try:
        for cells in reader:
            line, start = start, reader.line_num + 1
            if any(cell.strip() for cell in cells):
                yield line, cells
    except csv.Error as error:
        said = f"{path}, line {start}, column 1: not a readable table ({error})."
        raise PivotalError(f"{said} Check the quotes of the row.") from None


def _parquet_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """The rows of a Parquet file, read with the optional library pyarrow."""
    try:
        arrow = importlib.import_module("pyarrow")
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError:
        cure = "Install pivotal[parquet], or save the table as .csv."
        raise PivotalError(f"Reading {path} needs pyarrow. {cure}") from None
    try:
        rows = parquet.read_table(path).to_pylist()
    except (OSError, ValueError, arrow.ArrowException) as error:
        raise PivotalError(f"{path}: not a readable .parquet file ({in_short(error)}).") from None
    return ((f"{path}, row {number}", row) for number, row in enumerate(rows, start=1))
