"""Pairs of rows with a good and a bad word: where the words, the labels and the cues come from."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.questions.readers.reading import read

from pivotal.errors import PivotalError
from pivotal.questions.pairs_file import BadRows
from pivotal.questions.readers.choices import Choice, assemble, between_sentences


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
    ("good", "bad"),
    [
        ("The cat sleeps", "The cat sleeps"),
        ("The cat", "A cat"),
        ("The cat sleeps", "The cat"),
        ("The cat sleeps here", "The cat sleep there"),
        ("The cat sleeps", "The cat has slept"),
    ],
)
def test_differences_that_are_no_question(good: str, bad: str) -> None:
    with pytest.raises(PivotalError, match="begin alike and differ in one word, but they are"):
        between_sentences(good, bad)


@pytest.mark.parametrize(
    ("rows", "labels", "good"),
    [
        ([("No one", "ever", "often"), ("Some", "often", "ever")], ("ever", "often"), ("ever", "often")),
        ([("He", "is", "are"), ("We", "were", "is")], ("is", "were"), ("is", "were")),
        ([("a", "x", "y"), ("b", "y", "z"), ("c", "z", "x")], ("good", "bad"), ("good",) * 3),  # no two sides
        ([("a", "really", "ever"), ("b", "often", "ever")], ("good", "bad"), ("good",) * 2),  # one way
        ([("The cat", "runs", "run"), ("Cats", "eat", "eats")], ("good", "bad"), ("good",) * 2),  # not connected
    ],
)  # fmt: skip
def test_labels_are_the_words_or_good_and_bad(
    rows: list[tuple[str, str, str]], labels: tuple[str, str], good: tuple[str, ...]
) -> None:
    pairs = assemble("some", [Choice("here", *row) for row in rows], BadRows(skip=False))
    assert pairs.labels == labels and tuple(pair.label for pair in pairs) == good
    assert ("a column label can state" in pairs.notes[0]) == (labels == ("good", "bad"))


@pytest.mark.parametrize(("cue", "found"), [("cat", True), ("1", True), ("near", False), ("2", False)])
def test_a_row_with_a_cue_has_a_counterfactual_if_a_row_differs_there(
    cue: str, found: bool, tmp_path: Path
) -> None:
    text = f"prefix,cue,good,bad\nThe cat near it,{cue},is,are\nThe cats near it,cats,are,is\n"
    first, second = read(tmp_path, "a.csv", text, "table")
    both = ("The cat near it", "The cats near it")
    assert (first.counterfactuals, second.counterfactuals) == (both if found else ("", ""), both)


def test_the_cue_is_where_the_prefixes_of_two_rows_differ(tmp_path: Path) -> None:
    text = "prefix,good,bad\nThe cat,is,are\nThe cats,are,is\nThe old king near us,is,are\n"
    pairs = read(tmp_path, "a.csv", text, "table")
    assert [pair.cue for pair in pairs] == [1, 1, None]
    assert (
        "The cue of 2 pairs is the word that differs from a similar row, such as “The [cat]”." in pairs.notes
    )
    assert any(note.startswith("1 of 3 pairs have no cue") and "column cue" in note for note in pairs.notes)


def test_a_contradicting_row_is_no_counterfactual(tmp_path: Path) -> None:
    """A prefix is not its own counterfactual. `check` reports that the labels contradict each other."""
    pairs = read(tmp_path, "a.csv", "prefix,good,bad\nThe cat,is,are\nThe cat,are,is\n", "table")
    assert len(pairs) == 2 and {pair.counterfactuals for pair in pairs} == {("", "")}


def test_one_of_several_similar_rows_is_no_counterfactual(tmp_path: Path) -> None:
    text = "prefix,good,bad\nThe cat,is,are\nThe dogs,are,is\nThe men,are,is\n"
    pairs = read(tmp_path, "a.csv", text, "table")
    assert [pair.counterfactuals for pair in pairs] == [
        ("", ""),
        ("The cat", "The dogs"),
        ("The cat", "The men"),
    ]
