from __future__ import annotations

import pytest

from pivotal.errors import PivotalError
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.questions.relabel import parse_labels, relabelled

PAIRS = PairSet(
    "some",
    ("he", "she"),
    (
        MinimalPair("The king", 1, ("he", "she"), "he", counterfactuals=("The king", "The queen")),
        MinimalPair("The cook", 1, ("he", "she")),
    ),
)


def test_labels_are_renamed_and_put_in_order() -> None:
    found = relabelled(PAIRS, ("female", "male"), {"he": "male", "she": "female"})
    assert found is not None and found.labels == ("female", "male")
    king, cook = found
    assert (king.words, king.label, king.counterfactuals) == (
        ("she", "he"),
        "male",
        ("The queen", "The king"),
    )
    assert (cook.words, cook.label) == (("she", "he"), "")
    assert relabelled(PAIRS, ("he", "she")) == PAIRS
    assert relabelled(PAIRS, ("female", "male")) is None
    assert relabelled(PAIRS, ("he", "male"), {"she": "male"}) is not None, "the other label keeps its name"


def test_labels_that_are_not_there() -> None:
    with pytest.raises(PivotalError, match="labelled he and she, so 'it' cannot be mapped"):
        relabelled(PAIRS, ("a", "b"), {"it": "a"})


def test_parsing() -> None:
    assert parse_labels(" he = male, she=female ,") == {"he": "male", "she": "female"}
    for wrong in ("he", "he=", "=male"):
        with pytest.raises(PivotalError, match="such as he=male,she=female, but"):
            parse_labels(wrong)
