"""Sets of words in place of single words: in pairs, in files and in typed sentences."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pivotal.errors import PivotalError
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet, read_pairs
from pivotal.questions.phenomena import load_phenomenon
from pivotal.questions.sentence import pair_of
from pivotal.questions.word_sets import members, shown

LABELS = ("singular", "plural")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("is", ("is",)),
        ("is|was|has", ("is", "was", "has")),
        ("|", ("|",)),
        ("||", ("||",)),
        ("a|", ("a|",)),
    ],
)
def test_the_words_of_an_entry(entry: str, words: tuple[str, ...]) -> None:
    assert members(entry) == words


def test_long_sets_are_shortened() -> None:
    assert [shown(entry) for entry in ("is", "is|was", "is|was|has", "is|was|has|does")] == [
        "is",
        "is/was",
        "is/was/has",
        "is/was/…",
    ]


def test_lists_and_texts_are_the_same_pair() -> None:
    text = MinimalPair("The doctor", 1, ("is|was", "are|were"))
    listed = MinimalPair.parse("The doctor", "doctor", [["is", " was "], ["are", "were"]])
    assert listed == text
    assert text.word_sets == (("is", "was"), ("are", "were"))
    assert MinimalPair("The doctor", 1, ("is", "are")).word_sets == (("is",), ("are",))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("is|was", "are|was"), "'was' occurs twice"),
        (("is|is", "are"), "'is' occurs twice"),
        (("is|was not", "are"), "without spaces, not 'was not'"),
        ((["is", "a|b"], "are"), "cannot hold it, as 'a|b' does"),
        ((["is", 3], "are"), "a word or a list of words"),
        (([], "are"), "a word or a list of words"),
    ],
)
def test_sets_that_are_none(words: tuple, message: str) -> None:
    with pytest.raises(PivotalError, match=message) as refused:
        MinimalPair("The doctor", 1, words)
    assert refused.value.field == "words"


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".tsv"])
def test_files(suffix: str, tmp_path: Path) -> None:
    pairs = PairSet("sets", LABELS, (MinimalPair("The doctor", 1, ("is|was", "are"), "singular"),))
    pairs.save(tmp_path / f"sets{suffix}")
    text = (tmp_path / f"sets{suffix}").read_text()
    assert ('["is", "was"]' if suffix == ".jsonl" else "is|was") in text
    assert read_pairs(tmp_path / f"sets{suffix}") == pairs


def test_a_file_may_have_lists_or_separators(tmp_path: Path) -> None:
    rows = [
        {"prefix": "The doctor", "cue": 1, "words": {"singular": words, "plural": "are"}}
        for words in (["is", "was"], "is|was")
    ]
    (tmp_path / "sets.jsonl").write_text("\n".join(map(json.dumps, rows)))
    pairs = read_pairs(tmp_path / "sets.jsonl")
    assert [pair.words for pair in pairs] == [("is|was", "are")] and pairs.merged == 1, (
        "the two rows are the same"
    )
    (tmp_path / "sets.jsonl").write_text(json.dumps({**rows[0], "words": {"a": ["x", 3], "b": "y"}}))
    with pytest.raises(PivotalError, match=r"line 1, column 'words.a': must be a string, not a number: 3"):
        read_pairs(tmp_path / "sets.jsonl")


def test_single_words_keep_their_fingerprint() -> None:
    assert load_phenomenon("number-agreement").fingerprint() == "e2332b0c180ce958"
    assert load_phenomenon("gender-bias").fingerprint() == "c684ef2b00714433"


def test_a_typed_sentence_ends_in_any_word_of_a_set() -> None:
    known = PairSet("sets", LABELS, (MinimalPair("The doctor", 1, ("is|was", "are|were"), "singular"),))
    pair, _ = pair_of("The doctor was", LABELS, lambda: known)
    assert (pair.prefix, pair.words) == ("The doctor", ("is|was", "are|were"))
    pair, _ = pair_of("The doctor has", LABELS, lambda: known, words=["has|does", "have|do"])
    assert (pair.prefix, pair.words) == ("The doctor", ("has|does", "have|do"))
