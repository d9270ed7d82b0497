"""The labels that a table states: which rows have one that can be used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from pivotal.errors import PivotalError, did_you_mean
from pivotal.questions.pairs_file import SKIP, BadRows
from pivotal.questions.readers.choice import Choice

_FEW = 0.1
"""Rows that do not fit the others are mistakes if they are at most this share. Otherwise the column means something
else, or the same two words may have either label, as names have."""


def usable(choices: Sequence[Choice], column: str, bad: BadRows) -> list[Choice]:
    """The rows whose label can be used. `bad` takes rows without a label, with a third one, or with that of the other
    word."""
    stated = Counter(choice.label for choice in choices if choice.label)
    often = dict(stated.most_common(2))
    labels = [label for label in stated if label in often]
    if len(labels) < 2 or stated.total() - sum(often.values()) > _FEW * stated.total():
        return list(choices)  # no labels, or none that can be used, which `assemble` says
    swapped = _swapped([choice for choice in choices if choice.label in labels], labels[0])
    kept = []
    for choice in choices:
        with bad.row():
            _check(choice, column, labels, swapped.get(choice, []))
            kept.append(choice)
    return kept


def _check(choice: Choice, column: str, labels: list[str], others: list[Choice]) -> None:
    where = f"{choice.where}, column '{column}'"
    if not choice.label:
        raise PivotalError(
            f"{where}: the cell is empty, but other rows have the label {' or '.join(labels)}. Fill it.{SKIP}"
        )
    if choice.label not in labels:
        raise PivotalError(
            f"{where}: a table has two labels, here {' and '.join(labels)}, but this row has a third, "
            f"'{choice.label}'.{did_you_mean(choice.label, labels)} Correct it.{SKIP}"
        )
    if others:
        usual = labels[1 - labels.index(choice.label)]
        raise PivotalError(
            f"{where}: the label is that of the good word, here '{choice.label}' for “{choice.good}”, but in "
            f"{len(others):,} other rows with “{choice.good}” and “{choice.bad}”, such as "
            f"{others[0].where.rpartition(', ')[2]}, “{choice.good}” is '{usual}'. Correct the label or the words."
            f"{SKIP}"
        )


def _swapped(choices: Sequence[Choice], first: str) -> dict[Choice, list[Choice]]:
    """The rows that give two words the labels that they have the other way round in more rows, with these rows. None
    if that is so in more than a few rows: then the words do not decide the label."""

    def words(choice: Choice) -> list[str]:
        return sorted((choice.good, choice.bad))

    def first_word(choice: Choice) -> str:
        return choice.good if choice.label == first else choice.bad

    found: dict[Choice, list[Choice]] = {}
    odd = repeated = 0
    for _, same_words in groupby(sorted(choices, key=words), key=words):
        rows = list(same_words)
        sides = [[row for row in rows if (first_word(row) == rows[0].good) is side] for side in (True, False)]
        less, more = sorted(sides, key=len)
        if len(rows) > 2:  # of two rows, neither is the exception
            odd, repeated = odd + len(less), repeated + len(rows)
            if len(less) < len(more):
                found |= dict.fromkeys(less, more)
    return found if odd <= _FEW * repeated else {}
