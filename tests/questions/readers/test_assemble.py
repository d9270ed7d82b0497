"""Pairs from the rows of a table: which are left out, and the cues and counterfactuals of the others."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.questions.readers.reading import ROWS, read


def test_rows_of_another_kind_are_left_out_with_an_example(tmp_path: Path) -> None:
    text = "prefix,good,bad\n" + "".join(f"{','.join(row)}\n" for row in ROWS) + "The dog,often,ever\n"
    notes = read(tmp_path, "a.csv", text, "table").notes
    assert any(
        "Left out 1 pair of 4" in note and "“often” and “ever” (" in note and "line 5" in note
        for note in notes
    )


@pytest.mark.parametrize(("cue", "found"), [("cat", True), ("1", True), ("near", False), ("2", False)])
def test_a_row_with_a_cue_has_a_counterfactual_if_a_row_differs_there(
    cue: str, found: bool, tmp_path: Path
) -> None:
    text = f"prefix,cue,good,bad\nThe cat near it,{cue},is,are\nThe cats near it,cats,are,is\n"
    first, second = read(tmp_path, "a.csv", text, "table")
    both = ("The cat near it", "The cats near it")
    assert (first.counterfactuals, second.counterfactuals) == (both if found else ("", ""), both)


def test_cues_are_inferred_beside_stated_labels(tmp_path: Path) -> None:
    """No two of these rows are alike, so the cue comes from the kind of the labels, which have other names here."""
    rows = "prefix,good,bad,label\nThe cat near us,is,are,{}\nThe kings of old,are,is,{}\nThe poet who sang,is,are,{}\n"
    pairs = read(tmp_path, "a.csv", rows.format("sg", "pl", "sg"), "table")
    assert pairs.labels == ("sg", "pl") and [pair.cue_word for pair in pairs] == ["cat", "kings", "poet"]
    other = read(tmp_path, "b.csv", rows.format("early", "late", "late"), "table")
    assert [pair.cue for pair in other] == [None] * 3, "labels that are not number"


def test_a_contradicting_row_is_no_counterfactual(tmp_path: Path) -> None:
    """A prefix is not its own counterfactual. `check` reports that the labels contradict each other."""
    pairs = read(tmp_path, "a.csv", "prefix,good,bad\nThe cat,is,are\nThe cat,are,is\n", "table")
    assert len(pairs) == 2 and {pair.counterfactuals for pair in pairs} == {("", "")}
