"""Reader of tables: CSV, TSV, JSON, JSON Lines and Parquet, with a map of the columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from pivotal.errors import PivotalError
from pivotal.questions.pairs import PairSet
from pivotal.questions.pairs_file import BadRows, name_of
from pivotal.questions.readers.assemble import assemble
from pivotal.questions.readers.base import Reader, Sample
from pivotal.questions.readers.columns import Columns
from pivotal.questions.readers.rows import BINARY, Row, rows_of
from pivotal.questions.readers.stated import usable


@dataclass(frozen=True)
class TableReader(Reader):
    """Rows with a good and a bad word after a prefix, or with two sentences that differ in one word."""

    name: ClassVar[str] = "table"
    summary: ClassVar[str] = (
        "reads tables: table:FILE (.csv, .tsv, .json, .jsonl, .parquet), with --columns good=NAME,bad=NAME"
    )

    def pairs(self) -> PairSet:
        path, bad = Path(self.path), BadRows(self.reading.skip_bad)
        return table_pairs(name_of(path), rows_of(path, bad), self.reading.columns, bad)

    @classmethod
    def recognises(cls, sample: Sample) -> bool:
        if sample.path.suffix.lower() in BINARY:
            return True
        try:
            return bool(sample.keys) and bool(Columns.usual(sorted(sample.keys)))
        except PivotalError:
            return False


def table_pairs(name: str, rows: Iterator[tuple[str, Row]], columns: str, bad: BadRows) -> PairSet:
    """The pairs of rows whose columns have names."""
    every = list(rows)
    if not every:
        raise PivotalError(f"{name}: the table must have at least one row, but it has none.{bad.first()}")
    try:
        known = Columns.parse(columns, dict.fromkeys(key for _, row in every for key in row))
    except PivotalError as error:
        raise PivotalError(f"{every[0][0].rpartition(', ')[0]}: {error}", error.field) from None
    choices = []
    for where, row in every:
        with bad.row():
            choices.append(known.choice(where, row))
    if "label" in known.of:
        choices = usable(choices, known.of["label"], bad)
    made = assemble(name, choices, bad)
    return replace(made, notes=(known.note(), *made.notes))
