"""The format of a pairs file: JSON Lines, or CSV/TSV with the same columns. `pairs.py` checks the content of rows."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from pivotal.errors import PivotalError, did_you_mean
from pivotal.files import read_text, suffix_of, write_atomically

JSON_SUFFIXES = (".jsonl", ".json-lines")
DELIMITERS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (*JSON_SUFFIXES, *DELIMITERS)
SKIP = " --skip-bad leaves such rows out."
"""The end of a message about a row that the user may not want to correct."""
_OTHER_FORMATS = (
    " For a file in another format, write its reader before the path, such as blimp:PATH, or table:PATH with --columns "
    "prefix=COLUMN,good=COLUMN,bad=COLUMN. `pivotal list phenomena` lists the readers."
)

_WORD, _LEXEME, _COUNTERFACTUAL = "word.", "lexeme.", "counterfactual."
_STATED = re.compile(r'"?sep=(?P<mark>\t|[^"\w\s])"? *(?=\r?\n|$)', re.IGNORECASE)
"""A first line that states the delimiter, as Excel accepts it."""
_LISTED = 5
"""The most bad rows that a note lists."""

T = TypeVar("T")


class PairRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A pair as a file states it. The types are checked, the content is not."""

    prefix: str
    cue: int | str | None = None
    words: dict[str, str | list[str]]
    """By label. The words of a set are a list, or one string with `|` between them."""
    label: str | None = None
    group: str | None = None
    lexemes: dict[str, str] | None = None
    counterfactual: dict[str, str] | None = None


_ROW = msgspec.json.Decoder(PairRow)


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
        listed = "; ".join(error.rstrip(".") for error in sorted(self.errors, key=_line_of)[:_LISTED])
        count = "1 bad row" if len(self.errors) == 1 else f"{len(self.errors):,} bad rows"
        return (f"Left out {count}: {listed}{f'; and {more:,} more' if more > 0 else ''}.",)


def _line_of(error: str) -> int:
    """The line that an error names. A reader may find errors in another order."""
    found = re.search(r"\bline (\d+)", error)
    return int(found[1]) if found else 0


def name_of(path: Path) -> str:
    """The name of the set in a file: pairs for pairs.jsonl and for pairs.jsonl.gz."""
    return path.with_suffix("").stem if path.suffix.lower() == ".gz" else path.stem


# -- reading ----------------------------------------------------------------------------------------------------------


def read_rows(path: Path, bad: BadRows) -> Iterator[tuple[str, PairRow]]:
    """The place and the content of each row of a file. Its suffix decides the format."""
    suffix = _suffix(path)
    text = read_text(path)
    if not text.strip():
        raise PivotalError(f"{path}: a pairs file holds at least one pair; this one is empty.")
    if suffix in JSON_SUFFIXES:
        return json_lines(_ROW, path, text, bad)
    return ((where, _table_row(cells)) for where, cells in table_rows(path, text, bad, _check_columns))


def json_lines(
    decoder: msgspec.json.Decoder[T], path: Path, text: str, bad: BadRows
) -> Iterator[tuple[str, T]]:
    """The place and the content of each line that is not empty."""
    # splitlines() would also split at characters that a JSON string may contain.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            with bad.row(f"{path}, line {number}"):
                yield f"{path}, line {number}", _decoded(decoder, line)


def _decoded(decoder: msgspec.json.Decoder[T], text: str) -> T:
    """The content of a JSON text; PivotalError in the words of msgspec, with the key."""
    rule = "Every line holds one JSON object."
    try:
        return decoder.decode(text)
    except RecursionError:
        raise PivotalError(f"The value is nested too deeply. {rule}") from None
    except msgspec.DecodeError as error:
        reason, _, key = str(error).replace("`", "").partition(" - at $")
        if unknown := re.fullmatch("Object contains unknown field (.*)", reason):
            guess = did_you_mean(unknown[1], PairRow.__struct_fields__)
            raise PivotalError(f"Unknown key.{guess}{_OTHER_FORMATS}", unknown[1]) from None
        if missing := re.fullmatch("Object missing required field (.*)", reason):
            key, rule = missing[1], rule + _OTHER_FORMATS
        raise PivotalError(f"{reason}. {rule}", key.lstrip(".")) from None


def table_rows(
    path: Path, text: str, bad: BadRows, check: Callable[[list[str]], None] | None = None
) -> Iterator[tuple[str, dict[str, str]]]:
    """The place and the cells of every row that is not empty, by the names of the columns, which `check` may refuse."""
    columns: list[str] | None = None
    for line, cells in _table_lines(path, text):
        where = f"{path}, line {line}"
        if columns is None:
            columns = [" ".join(cell.split()) for cell in cells]
            with BadRows(skip=False).row(where):
                _check_distinct(columns)
                if check is not None:
                    check(columns)
            continue
        with bad.row(where):
            if len(cells) != len(columns):
                raise PivotalError(
                    f"The row has {len(cells)} cells, but the first line names {len(columns)} columns. Quote a cell "
                    "that holds the delimiter."
                )
            yield where, dict(zip(columns, cells, strict=True))


def _delimiter(suffix: str, text: str) -> str:
    """The delimiter of a table: that of its suffix, or another one in the first line. Spreadsheets write semicolons to
    a .csv file where the comma is the decimal mark, and tabs are often saved as .csv."""
    head, usual = text.lstrip().partition("\n")[0], DELIMITERS[suffix]
    return usual if usual in head else next((mark for mark in "\t;," if mark in head), usual)


def _table_lines(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    stated = _STATED.match(text)
    delimiter = stated["mark"] if stated else _delimiter(suffix_of(path), text)
    stream = io.StringIO(text[stated.end() :] if stated else text, newline="")
    reader = csv.reader(stream, delimiter=delimiter, strict=True)
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


def _check_distinct(columns: list[str]) -> None:
    for column in columns:
        if columns.count(column) > 1:
            raise PivotalError("The column occurs twice. Remove one.", column)


def _check_columns(columns: list[str]) -> None:
    plain = ("prefix", "cue", "label", "group")
    for column in columns:
        if column not in plain and not column.startswith((_WORD, _LEXEME, _COUNTERFACTUAL)):
            known = [*plain, _WORD + "LABEL", _LEXEME + "SLOT", _COUNTERFACTUAL + "LABEL"]
            raise PivotalError(f"Unknown column.{did_you_mean(column, known)}{_OTHER_FORMATS}", column)
    if "prefix" not in columns or sum(column.startswith(_WORD) for column in columns) != 2:
        raise PivotalError(
            "The first line names the columns, with prefix and two such as word.singular and word.plural, but it has "
            f"{', '.join(columns)}.{_OTHER_FORMATS}"
        )


def _table_row(cells: Mapping[str, str]) -> PairRow:
    return PairRow(
        prefix=cells["prefix"],
        cue=index_or_word(cells.get("cue", "").strip()),
        words={name[len(_WORD) :]: cell for name, cell in cells.items() if name.startswith(_WORD)},
        label=cells.get("label"),
        group=cells.get("group"),
        lexemes=_filled(cells, _LEXEME),
        counterfactual=_filled(cells, _COUNTERFACTUAL),
    )


def index_or_word(cue: str) -> int | str | None:
    """Digits are an index. If the cue is the word "7", a file can give the index of that word."""
    return int(cue) if cue.isascii() and cue.isdigit() and len(cue) < 10 else cue or None


def _filled(cells: Mapping[str, str], start: str) -> dict[str, str]:
    """The filled cells of the columns whose names have this beginning, by the rest of the name."""
    return {
        name[len(start) :]: cell for name, cell in cells.items() if name.startswith(start) and cell.strip()
    }


# -- writing ----------------------------------------------------------------------------------------------------------


def write_rows(path: Path, labels: Sequence[str], rows: Sequence[PairRow]) -> None:
    """Write rows to a file atomically. Its suffix decides the format."""
    suffix = _suffix(path)
    if suffix in JSON_SUFFIXES:
        text = "".join(json.dumps(msgspec.to_builtins(row), ensure_ascii=False) + "\n" for row in rows)
    else:
        text = _table(labels, rows, DELIMITERS[suffix])
    data = gzip.compress(text.encode(), mtime=0) if path.suffix.lower() == ".gz" else text.encode()
    try:
        write_atomically(path, lambda new: new.write_bytes(data))
    except OSError as error:
        raise PivotalError(
            f"{path}: cannot write it ({error.strerror}). Choose a folder that exists."
        ) from None


def _table(labels: Sequence[str], rows: Sequence[PairRow], delimiter: str) -> str:
    cells: list[dict[str, object]] = []
    for row in rows:
        words = {_WORD + label: w if isinstance(w, str) else "|".join(w) for label, w in row.words.items()}
        lexemes = {_LEXEME + slot: lemma for slot, lemma in (row.lexemes or {}).items()}
        others = {_COUNTERFACTUAL + label: text for label, text in (row.counterfactual or {}).items()}
        fixed = {"prefix": row.prefix, "cue": row.cue, "label": row.label, "group": row.group}
        cells.append({**fixed, **words, **lexemes, **others})
    named = {name for row in cells for name in row}
    columns = ["prefix", "cue", *(_WORD + label for label in labels), "label", "group"]
    columns += sorted(name for name in named if name.startswith(_LEXEME))
    columns += [_COUNTERFACTUAL + label for label in labels if _COUNTERFACTUAL + label in named]
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(cells)
    return out.getvalue()


def _suffix(path: Path) -> str:
    suffix = suffix_of(path)
    if suffix not in SUFFIXES:
        raise PivotalError(
            f"{path}: a pairs file ends in one of {', '.join(SUFFIXES)}, not '{path.suffix}'. "
            f"Save it in one of these formats.{_OTHER_FORMATS}"
        )
    return suffix
