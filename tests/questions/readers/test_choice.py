"""The word in which two sentences differ."""

from __future__ import annotations

import pytest

from pivotal.errors import PivotalError
from pivotal.questions.readers.choice import between_sentences


@pytest.mark.parametrize(
    ("good", "bad", "found"),
    [
        ("The cats sleep well", "The cats sleeps well", ("The cats", "sleep", "sleeps")),
        ("He saw  himself.", "He saw herself.", ("He saw", "himself", "herself")),
        ("Is it a cat?", "Is it a cats?", ("Is it a", "cat", "cats")),
        ("a .", "a ,", ("a", ".", ",")),
    ],
)
def test_the_difference_of_sentences(good: str, bad: str, found: tuple[str, str, str]) -> None:
    assert between_sentences(good, bad) == found


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ("The cat sleeps", "The cat sleeps", "must differ, but both are"),
        ("The cat", "A cat", "differ in their first word"),
        ("The cat sleeps", "The cat", "is the beginning of"),
        ("The cat sleeps here", "The cat sleep there", "may differ in one word only"),
        ("The cat sleeps", "The cat has slept", "may differ in one word only"),
    ],
)
def test_differences_that_are_no_question(good: str, bad: str, message: str) -> None:
    with pytest.raises(PivotalError, match=message):
        between_sentences(good, bad)
