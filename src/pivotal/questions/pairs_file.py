"""The format of a pairs file: JSON Lines, or CSV/TSV with the same columns. `pairs.py` checks the content of rows."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pivotal.errors import PivotalError, did_you_mean
from pivotal.files import read_text, suffix_of, write_atomically
from pivotal.questions.word_sets import joined, members

JSON_SUFFIXES = (".jsonl", ".json-lines")
DELIMITERS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (*JSON_SUFFIXES, *DELIMITERS)

_KEYS = ("prefix", "cue", "words", "label", "group", "lexemes", "counterfactual")
_REQUIRED = ("prefix", "words")
_OBJECTS = ("lexemes", "counterfactual")
"""Keys whose values are objects. A table has a column for each of their entries."""
_WORD, _LEXEME, _COUNTERFACTUAL = "word.", "lexeme.", "counterfactual."
_STATED = re.compile(r'"?sep=(?P<mark>\t|[^"\w\s])"? *(?=\r?\n|$)', re.IGNORECASE)
"""A first line that states the delimiter, as Excel accepts it."""


@dataclass(frozen=True, slots=True)
class PairRow:
    """A pair as read from a file. The types are checked, the content is not."""

    line: int
    prefix: str
    cue: int | str | None
    """None if the row has none."""
    words: Mapping[str, str]
    label: str = ""
    group: str = ""
    lexemes: Mapping[str, str] = field(default_factory=dict)
    counterfactual: Mapping[str, str] = field(default_factory=dict)


ReadRow = Callable[[], PairRow]
"""Reads one row, or raises PivotalError. The rows after it can be read in any case."""


def read_rows(path: Path) -> Iterator[ReadRow]:
    """The rows of a file. Its suffix decides the format."""
    suffix = _suffix(path)
    text = read_text(path)
    if not text.strip():
        raise PivotalError(f"{path}: a pairs file holds at least one pair; this one is empty.")
    return (
        _json_rows(path, text)
        if suffix in JSON_SUFFIXES
        else _table_rows(path, text, delimiter_of(suffix, text))
    )


def delimiter_of(suffix: str, text: str) -> str:
    """The delimiter of a table: what its first line states (`sep=;`), that of its suffix, or another one in the first
    line. Spreadsheets write semicolons to a .csv file where the comma is the decimal mark, and tabs are often saved as
    .csv."""
    if stated := _STATED.match(text):
        return stated["mark"]
    head = text.lstrip().partition("\n")[0]
    usual = DELIMITERS[suffix]
    return usual if usual in head else next((mark for mark in "\t;," if mark in head), usual)


def without_stated_delimiter(text: str) -> str:
    """The text of a table with an empty first line in place of one that states the delimiter."""
    stated = _STATED.match(text)
    return text if stated is None else text[stated.end() :]


def name_of(path: Path) -> str:
    """The name of the set in a file: pairs for pairs.jsonl and for pairs.jsonl.gz."""
    return path.with_suffix("").stem if path.suffix.lower() == ".gz" else path.stem


def write_rows(path: Path, labels: Sequence[str], rows: Sequence[PairRow]) -> None:
    """Write rows to a file atomically. Its suffix decides the format."""
    suffix = _suffix(path)
    out = io.StringIO()
    if suffix in JSON_SUFFIXES:
        for row in rows:
            stated = {key: getattr(row, key) for key in _KEYS}
            content = {key: value for key, value in stated.items() if value or value == 0}
            content["words"] = {label: _listed(entry) for label, entry in row.words.items()}
            out.write(json.dumps(content, ensure_ascii=False) + "\n")
    else:
        slots = sorted({slot for row in rows for slot in row.lexemes})
        others = [label for label in labels if any(label in row.counterfactual for row in rows)]
        columns = ["prefix", "cue", *(_WORD + label for label in labels), "label", "group"]
        columns += [_LEXEME + slot for slot in slots] + [_COUNTERFACTUAL + label for label in others]
        writer = csv.writer(out, delimiter=DELIMITERS[suffix], lineterminator="\n")
        writer.writerow(columns)
        for row in rows:
            cells = [
                row.prefix,
                "" if row.cue is None else row.cue,
                *(row.words[label] for label in labels),
                row.label,
                row.group,
            ]
            cells += [row.lexemes.get(slot, "") for slot in slots]
            writer.writerow(cells + [row.counterfactual.get(label, "") for label in others])
    data = out.getvalue().encode()
    if path.suffix.lower() == ".gz":
        data = gzip.compress(data, mtime=0)
    try:
        write_atomically(path, lambda new: new.write_bytes(data))
    except OSError as error:
        raise PivotalError(
            f"{path}: cannot write it ({error.strerror}). Choose a folder that exists."
        ) from None


def _suffix(path: Path) -> str:
    suffix = suffix_of(path)
    if suffix not in SUFFIXES:
        raise PivotalError(
            f"{path}: a pairs file ends in one of {', '.join(SUFFIXES)}, not '{path.suffix}'. "
            "Save it in one of these formats. `pivotal list phenomena` lists the readers of others."
        )
    return suffix


def _json_rows(path: Path, text: str) -> Iterator[ReadRow]:
    # splitlines() would also split at characters that a JSON string may contain.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield partial(_json_line, path, number, line)


def _json_line(path: Path, number: int, line: str) -> PairRow:
    return _json_row(f"{path}, line {number}", number, json_object(path, number, line))


def json_object(path: Path, number: int, line: str) -> dict[str, object]:
    """The JSON object of a line. Errors name the file, the line and the column."""
    try:
        content = json.loads(line)
    except json.JSONDecodeError as error:
        raise PivotalError(
            f"{path}, line {number}, column {error.colno}: not JSON ({error.msg}). "
            "Every line holds one JSON object."
        ) from None
    except (ValueError, RecursionError):
        raise PivotalError(
            f"{path}, line {number}, column 1: a number or a nesting is too large for a pair."
        ) from None
    if not isinstance(content, dict):
        raise PivotalError(
            f"{path}, line {number}, column 1: every line holds one JSON object, not a {_kind(content)}."
        )
    return content


def _json_row(where: str, line: int, content: dict[str, object]) -> PairRow:
    for key in content:
        if key not in _KEYS:
            raise PivotalError(f"{where}, column '{key}': unknown key.{did_you_mean(key, _KEYS)}")
    for key in _REQUIRED:
        if key not in content:
            raise PivotalError(
                f"{where}, column '{key}': the key is missing. A pair needs {', '.join(_REQUIRED)}."
            )
    # Other programs write null for a value that is missing.
    content = {key: value for key, value in content.items() if value is not None or key in _REQUIRED}
    cue = content.get("cue")
    if isinstance(cue, bool) or not isinstance(cue, int | str | None):
        raise _wrong_type(where, "cue", "an index from 0 or a word", cue)
    return PairRow(
        line,
        _json_text(where, content, "prefix"),
        cue,
        _json_words(where, content),
        _json_text(where, content, "label"),
        _json_text(where, content, "group"),
        _json_texts(where, content, "lexemes"),
        _json_texts(where, content, "counterfactual"),
    )


def _json_text(where: str, content: Mapping[str, object], key: str) -> str:
    value = content.get(key, "")
    if not isinstance(value, str):
        raise _wrong_type(where, key, "a string", value)
    return value


def _json_texts(where: str, content: Mapping[str, object], key: str) -> dict[str, str]:
    value = content.get(key, {})
    if not isinstance(value, dict):
        raise _wrong_type(where, key, "an object of strings", value)
    return {name: _json_text(where, {f"{key}.{name}": text}, f"{key}.{name}") for name, text in value.items()}


def _json_words(where: str, content: Mapping[str, object]) -> dict[str, str]:
    """The words by label. The words of a set are a list, or one string with `|` between them."""
    value = content.get("words", {})
    if not isinstance(value, dict):
        raise _wrong_type(where, "words", "an object of strings", value)
    words = {}
    for label, entry in value.items():
        key = f"words.{label}"
        if isinstance(entry, list):
            for word in entry:
                _json_text(where, {key: word}, key)
            try:
                entry = joined(entry)
            except PivotalError as error:
                raise PivotalError(f"{where}, column '{key}': {error}") from None
        words[label] = _json_text(where, {key: entry}, key)
    return words


def _listed(entry: str) -> str | list[str]:
    words = members(entry)
    return entry if len(words) == 1 else list(words)


def _wrong_type(where: str, key: str, wanted: str, value: object) -> PivotalError:
    return PivotalError(f"{where}, column '{key}': must be {wanted}, not a {_kind(value)}: {value!r:.60}.")


def _kind(value: object) -> str:
    names = {dict: "object", list: "list", str: "string", bool: "truth value", int: "number", float: "number"}
    return names.get(type(value), "null")


def _table_rows(path: Path, text: str, delimiter: str) -> Iterator[ReadRow]:
    lines = table_lines(path, text, delimiter)
    try:
        start, head = next(lines)
    except StopIteration:
        return
    columns = [" ".join(cell.split()) for cell in head]
    _check_columns(f"{path}, line {start}", columns)
    for line, cells in lines:
        yield partial(_table_line, path, line, columns, cells)


def table_lines(path: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The number of the line and the cells of every row of a table that is not empty."""
    reader = csv.reader(
        io.StringIO(without_stated_delimiter(text), newline=""), delimiter=delimiter, strict=True
    )
    start = 1
    try:
        for cells in reader:
            line, start = start, reader.line_num + 1
            if any(cell.strip() for cell in cells):
                yield line, cells
    except csv.Error as error:
        raise PivotalError(
            f"{path}, line {start}, column 1: not a readable table ({error}). Check the quotes of the row."
        ) from None


def named_cells(path: Path, line: int, columns: list[str], cells: list[str]) -> dict[str, str]:
    """The cells of a row by the names of the columns."""
    if len(cells) != len(columns):
        at = columns[len(cells)] if len(cells) < len(columns) else str(len(columns) + 1)
        raise PivotalError(
            f"{path}, line {line}, column '{at}': the row has {len(cells)} cells, but the first line names "
            f"{len(columns)} columns. Quote a cell that holds the delimiter."
        )
    return dict(zip(columns, cells, strict=True))


def _table_line(path: Path, line: int, columns: list[str], cells: list[str]) -> PairRow:
    return _table_row(f"{path}, line {line}", line, named_cells(path, line, columns, cells))


def _check_columns(where: str, columns: list[str]) -> None:
    for column in columns:
        if columns.count(column) > 1:
            raise PivotalError(f"{where}, column '{column}': the column occurs twice. Remove one.")
        prefixed = column.startswith((_WORD, _LEXEME, _COUNTERFACTUAL))
        if (column not in _KEYS and not prefixed) or column in _OBJECTS:
            known = [key for key in _KEYS if key not in (*_OBJECTS, "words")]
            known += [_WORD + "LABEL", _LEXEME + "SLOT", _COUNTERFACTUAL + "LABEL"]
            raise PivotalError(
                f"{where}, column '{column}': unknown column.{did_you_mean(column, known)}", "columns"
            )
    if "prefix" not in columns:
        raise PivotalError(
            f"{where}, column 'prefix': the column is missing. The first line names the columns."
        )
    labels = [column for column in columns if column.startswith(_WORD)]
    found = labels + ["words"] * ("words" in columns)
    if ("words" in columns) == bool(labels) or len(labels) not in (0, 2):
        raise PivotalError(
            f"{where}, column '{(labels or ['words'])[0]}': the two words must be in two columns such as "
            f"word.singular and word.plural, or as JSON in the column words, not in {found or 'none'}."
        )


def _table_row(where: str, line: int, cells: dict[str, str]) -> PairRow:
    cue: str | None = cells.get("cue", "").strip() or None
    words = {column[len(_WORD) :]: cell for column, cell in cells.items() if column.startswith(_WORD)}
    if "words" in cells:
        try:
            words = _json_words(where, {"words": json.loads(cells["words"])})
        except (ValueError, RecursionError) as error:
            raise PivotalError(
                f"{where}, column 'words': not JSON ({error}). "
                'Example: {"singular": "approves", "plural": "approve"}.'
            ) from None
    return PairRow(
        line,
        cells["prefix"],
        # Digits are an index. If the cue is the word "7", the file can give the index of that word.
        int(cue) if cue is not None and cue.isascii() and cue.isdigit() and len(cue) < 10 else cue,
        words,
        cells.get("label", ""),
        cells.get("group", ""),
        _columns(cells, _LEXEME),
        _columns(cells, _COUNTERFACTUAL),
    )


def _columns(cells: Mapping[str, str], start: str) -> dict[str, str]:
    """The filled cells of the columns whose names have this beginning, by the rest of the name."""
    return {
        name[len(start) :]: cell for name, cell in cells.items() if name.startswith(start) and cell.strip()
    }
