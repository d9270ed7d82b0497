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
_COLUMNS = (
    *("pattern", "constr_id", "sent_id", "type", "correct_number"),
    *("form", "class", "prefix", "len_context"),
)


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
        by_sentence: dict[tuple[str, ...], dict[str, _TabRow]] = {}
        for where, cells in _rows(path):
            with bad.row():
                row = _row(where, cells)
                forms = by_sentence.setdefault(row.sentence, {})
                if row.verdict in forms:
                    raise PivotalError(
                        f"{where}: a sentence has one {row.verdict} form, but here is a second."
                    )
                forms[row.verdict] = row
        pairs = []
        for forms in by_sentence.values():
            with bad.row():
                pairs.append(_pair(forms))
        if not pairs:
            raise PivotalError(f"{path}: there must be at least one pair, but there is none.{bad.first()}")
        return PairSet(self.name, LABELS, tuple(pairs), notes=bad.notes())


@dataclass(frozen=True)
class _TabRow:
    where: str
    sentence: tuple[str, ...]
    """(pattern, construction, sentence, type): the key that the rows of the two verb forms share."""
    prefix: str
    cue: int
    form: str
    verdict: str
    """"correct" or "wrong"."""
    number: str


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, str]]]:
    table = csv.DictReader(io.StringIO(read_text(path), newline=""), delimiter="\t")
    missing = [name for name in _COLUMNS if name not in (table.fieldnames or ())]
    if missing:
        raise PivotalError(
            f"{path}, line 1: the columns must include {', '.join(_COLUMNS)}; there is no {', '.join(missing)}."
        )
    for cells in table:
        yield f"{path}, line {table.line_num}", cells


def _row(where: str, cells: Mapping[str, str]) -> _TabRow:
    values = {name: cells[name] for name in _COLUMNS}
    if None in values.values():
        raise PivotalError(f"{where}: the row has fewer cells than the header.")
    for name, known in (("class", ("correct", "wrong")), ("correct_number", _NUMBERS), ("type", _TYPES)):
        if values[name] not in known:
            raise PivotalError(f"{where}: {name} must be {' or '.join(known)}, not '{values[name]}'.")
    words = values["prefix"].split()
    if not values["len_context"].isdecimal() or not 0 < int(values["len_context"]) <= len(words):
        raise PivotalError(
            f"{where}: len_context counts words at the end of the prefix, of which there are {len(words)}; "
            f"it is '{values['len_context']}'."
        )
    return _TabRow(
        where,
        (values["pattern"], values["constr_id"], values["sent_id"], values["type"]),
        " ".join(words),
        len(words) - int(values["len_context"]),
        values["form"],
        values["class"],
        _NUMBERS[values["correct_number"]],
    )


def _pair(forms: Mapping[str, _TabRow]) -> MinimalPair:
    row = next(iter(forms.values()))
    if len(forms) != 2:
        raise PivotalError(f"{row.where}: a sentence has a correct and a wrong form; here is only one.")
    right, wrong = forms["correct"], forms["wrong"]
    if (right.prefix, right.number) != (wrong.prefix, wrong.number):
        raise PivotalError(f"{wrong.where}: the two rows of a sentence must have the same prefix and number.")
    words = (right.form, wrong.form) if right.number == "singular" else (wrong.form, right.form)
    # A nonce sentence and its original share this lexeme, so that a lexical split keeps them in one part.
    family = ("sentence", f"{right.sentence[0]}-{right.sentence[1]}")
    try:
        return MinimalPair(right.prefix, right.cue, words, right.number, _TYPES[right.sentence[3]], (family,))
    except PivotalError as error:
        raise PivotalError(f"{right.where}: {error}") from None
