"""Minimal pairs: what is normalised and refused, sets of words, and the cue as a word."""

from __future__ import annotations

import pytest

from pivotal.errors import PivotalError
from pivotal.questions.minimal_pair import MinimalPair, find_cue, members, shown
from pivotal.questions.pairs import PairSet
from pivotal.questions.sentence import pair_of

LABELS = ("singular", "plural")


def test_a_pair_is_normalised():
    pair = MinimalPair("  The\tathlete \n now ", 1, ("runs ", " run"), lexemes=(("verb", "run"), ("a", "b")))
    assert (pair.prefix, pair.words, pair.cue_word) == ("The athlete now", ("runs", "run"), "athlete")
    assert pair.lexemes == (("a", "b"), ("verb", "run"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prefix": " \n "}, "prefix is empty"),
        ({"cue": 3}, "from 0 to 2 into the words of 'The athlete now', not 3"),
        ({"cue": -1}, "from 0 to 2"),
        ({"words": ("run", "run ")}, "two different words"),
        ({"words": ("run", "")}, "needs a word without spaces, but one is ''"),
        ({"words": ("run", "run fast")}, "a word without spaces, but one is 'run fast'"),
        ({"group": "a\x00b"}, r"U\+0000"),
        ({"prefix": "The athlete \ud800"}, r"U\+D800"),
        ({"lexemes": (("a", "b"), ("a", "c"))}, "different slots"),
        ({"lexemes": (("a", ""),)}, "a lemma each"),
        ({"counterfactuals": ("The athletes now", "The athletes")}, r"as many words as the prefix \(3\)"),
        ({"counterfactuals": ("The athletes now",)}, "for each of its two labels"),
    ],
)
def test_a_bad_pair_is_refused(changes, message):
    good = {"prefix": "The athlete now", "cue": 1, "words": ("runs", "run")}
    with pytest.raises(PivotalError, match=message):
        MinimalPair(**{**good, **changes})


def test_find_cue():
    assert find_cue("The cat saw the dog", "cat") == 1
    with pytest.raises(PivotalError, match=r"occurs 2 times in 'a b a'. Give its index instead: 0, 2"):
        find_cue("a b a", "a")
    with pytest.raises(PivotalError, match=r"no 'cats'. Did you mean 'cat'\?"):
        find_cue("The cat saw", "cats")


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
        (("is|was not", "are"), "without spaces, but one is 'was not'"),
        ((["is", "a|b"], "are"), "cannot hold it, as 'a|b' does"),
        ((["is", 3], "are"), "a word or a list of words"),
        (([], "are"), "a word or a list of words"),
    ],
)
def test_sets_that_are_none(words: tuple, message: str) -> None:
    with pytest.raises(PivotalError, match=message) as refused:
        MinimalPair("The doctor", 1, words)
    assert refused.value.field == "words"


def test_a_typed_sentence_ends_in_any_word_of_a_set() -> None:
    known = PairSet("sets", LABELS, (MinimalPair("The doctor", 1, ("is|was", "are|were"), "singular"),))
    pair, _ = pair_of("The doctor was", LABELS, lambda: known)
    assert (pair.prefix, pair.words) == ("The doctor", ("is|was", "are|were"))
    pair, _ = pair_of("The doctor has", LABELS, lambda: known, words=["has|does", "have|do"])
    assert (pair.prefix, pair.words) == ("The doctor", ("has|does", "have|do"))
