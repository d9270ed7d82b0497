"""Labels that are found in the words of a file."""

from __future__ import annotations

import pytest
from tests.questions.readers.reading import NUMBER

from pivotal.questions.readers.choice import Choice
from pivotal.questions.readers.labels import labelled


def choices(*rows: tuple[str, str, str]) -> list[Choice]:
    return [Choice("here", *row) for row in rows]


@pytest.mark.parametrize(
    ("rows", "labels", "good"),
    [
        ([("The cat", "sleeps", "sleep"), ("The cats", "sleep", "sleeps")], NUMBER, (0, 1)),
        ([("He", "isn't", "aren't"), ("They", "were", "was")], NUMBER, (0, 1)),
        ([("Read these", "books", "book"), ("Read this", "book", "books")], NUMBER, (1, 0)),
        ([("See these old", "oxen", "ox"), ("See that", "axis", "axes")], NUMBER, (1, 0)),
        ([("Men saw", "themselves", "itself"), ("It saw", "itself", "themselves")], NUMBER, (1, 0)),
        (
            [("Ann saw", "herself", "himself"), ("Al saw", "himself", "herself")],
            ("masculine", "feminine"),
            (1, 0),
        ),
        ([("No one", "ever", "often"), ("Some", "often", "ever")], ("ever", "often"), (0, 1)),
        ([("a", "x", "y"), ("b", "y", "z"), ("c", "z", "x")], ("good", "bad"), (0, 0, 0)),  # no two sides
        ([("a", "really", "ever"), ("b", "often", "ever")], ("good", "bad"), (0, 0)),  # one way
    ],
)
def test_labels_are_found(
    rows: list[tuple[str, str, str]], labels: tuple[str, str], good: tuple[int, ...]
) -> None:
    found = labelled(choices(*rows))
    assert (found.labels, found.good) == (labels, good)
