"""Reader of the number agreement test set of Gulordava et al. (2018), `generated.tab`."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pivotal.errors import PivotalError
from pivotal.files import read_text
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.questions.pairs_file import BadRows
from pivotal.questions.readers.base import Reader

LABELS = ("singular", "plural")
_NUMBERS = {"sing": "singular", "plur": "plural"}
_TYPES = {"original": "original", "generated": "nonce"}
_VERDICTS = ("correct", "wrong")
_SENTENCE = ("pattern", "constr_id", "sent_id", "type")
"""The columns that the rows of the two verb forms of a sentence share."""
_COLUMNS = (*_SENTENCE, "correct_number", "form", "class", "prefix", "len_context")


@dataclass(frozen=True)
class Gulordava(Reader):
    """Tab-separated rows, one for each sentence and verb form. The sentences come from a treebank, or are nonce.

    The cue is the word that the verb agrees with: the head of the subject, or another verb with the same subject.
    """

    name: ClassVar[str] = "gulordava"
    labels: ClassVar[tuple[str, str] | None] = LABELS
    summary: ClassVar[str] = "reads the test set of Gulordava et al. (2018): gulordava:generated.tab"

    def pairs(self) -> PairSet:
        path, bad = Path(self.path), BadRows(self.reading.skip_bad)
        sentences: dict[tuple[str, ...], list[dict[str, str]]] = {}
        for where, cells in _rows(path):
            with bad.row(where):
                row = _checked(where, cells)
                sentences.setdefault(tuple(row[name] for name in _SENTENCE), []).append(row)
        pairs = []
        for rows in sentences.values():
            with bad.row(rows[-1]["where"]):
                pairs.append(_pair(rows))
        if not pairs:
            raise PivotalError(f"{path}: there must be at least one pair, but there is none.{bad.first()}")
        return PairSet(self.name, LABELS, tuple(pairs), notes=bad.notes())


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, str]]]:
    table = csv.DictReader(io.StringIO(read_text(path), newline=""), delimiter="\t")
    missing = [name for name in _COLUMNS if name not in (table.fieldnames or ())]
    if missing:
        raise PivotalError(
            f"{path}, line 1: the columns must include {', '.join(_COLUMNS)}; there is no {', '.join(missing)}."
        )
    for cells in table:
        yield f"{path}, line {table.line_num}", cells


def _checked(where: str, cells: Mapping[str, str]) -> dict[str, str]:
    row = {name: cells[name] or "" for name in _COLUMNS} | {"where": where}
    for name, known in (("class", _VERDICTS), ("correct_number", _NUMBERS), ("type", _TYPES)):
        if row[name] not in known:
            raise PivotalError(f"{name} must be {' or '.join(known)}, not '{row[name]}'.")
    words, context = len(row["prefix"].split()), row["len_context"]
    if not context.isdecimal() or not 0 < int(context) <= words:
        raise PivotalError(
            f"len_context counts words of the prefix, from 1 to {words}, but it is '{context}'."
        )
    return row


def _pair(rows: list[dict[str, str]]) -> MinimalPair:
    right, wrong = ([row for row in rows if row["class"] == verdict] for verdict in _VERDICTS)
    shared = {(row["prefix"], row["correct_number"]) for row in rows}
    if len(right) != 1 or len(wrong) != 1 or len(shared) != 1:
        raise PivotalError(
            f"A sentence has one correct and one wrong row with the same prefix and number, but "
            f"here are {len(right)} and {len(wrong)}."
        )
    row, number = right[0], _NUMBERS[right[0]["correct_number"]]
    words = (row["form"], wrong[0]["form"])
    cue = len(row["prefix"].split()) - int(row["len_context"])
    # A nonce sentence and its original share this lexeme, so that a split by words keeps them in one part.
    family = ("sentence", f"{row['pattern']}-{row['constr_id']}")
    words = words if number == "singular" else words[::-1]
    return MinimalPair(row["prefix"], cue, words, number, _TYPES[row["type"]], (family,))
