"""What a typed sentence leaves unsaid is found in the pairs, or asked for."""

from __future__ import annotations

from typing import Any

import pytest

from pivotal.errors import PivotalError
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.questions.sentence import pair_of

LABELS = ("singular", "plural")
KNOWN = PairSet(
    "number",
    LABELS,
    (
        MinimalPair("The doctor", 1, ("admires", "admire")),
        MinimalPair("The doctors near the car", 1, ("admires", "admire")),
        MinimalPair("The cars", 1, ("stops", "stop")),
        MinimalPair("A very old house", 3, ("is", "are")),
        MinimalPair("The house", 1, ("is", "are")),
        MinimalPair("The house", 1, ("is", "were")),
    ),
)


def nothing() -> PairSet:
    raise AssertionError("all was said, so nothing had to be looked up")


def ask(sentence: str, **said: Any) -> tuple[MinimalPair, bool]:
    return pair_of(sentence, LABELS, lambda: KNOWN, **said)


@pytest.mark.parametrize(
    ("sentence", "said", "pair"),
    [
        ("The doctor near the cars admires", {}, MinimalPair("The doctor near the cars", 1, ("admires", "admire"))),
        ("The  cars admire", {}, MinimalPair("The cars", 1, ("admires", "admire"))),
        # This very prefix is known; its usual place would be another.
        ("A very old house stop", {}, MinimalPair("A very old house", 3, ("stops", "stop"))),
        # The house can be a cue as well, but none stands at 4.
        ("The doctor near the house stop", {}, MinimalPair("The doctor near the house", 1, ("stops", "stop"))),
        ("The cat near the doctor", {"words": ["sits", "sit"], "cue": "cat"},
         MinimalPair("The cat near the doctor", 1, ("sits", "sit"))),
        ("The cat near the cat sit", {"words": ["sits", " sit"], "cue": "4"},
         MinimalPair("The cat near the cat", 4, ("sits", "sit"))),
    ],
)  # fmt: skip
def test_a_sentence_becomes_a_pair(sentence: str, said: dict[str, Any], pair: MinimalPair) -> None:
    assert ask(sentence, **said) == (pair, True)


def test_what_is_given_is_not_looked_up() -> None:
    pair, _ = pair_of("The cat sits", LABELS, nothing, words=["sits", "sit"], cue="1")
    assert (pair.prefix, pair.cue) == ("The cat", 1)


def test_without_a_cue_only_where_none_is_needed() -> None:
    assert ask("Those cats stop", at_cue=False) == (MinimalPair("Those cats", 0, ("stops", "stop")), False)
    with pytest.raises(PivotalError, match=r"no word of “Those cats” is a cue .*--cue: one of Those, cats"):
        ask("Those cats stop")


@pytest.mark.parametrize(
    ("sentence", "said", "parts"),
    [
        ("The doctor of house stop", {}, "or more than one is"),
        ("admires", {}, "some words and then the word asked about"),
        ("", {}, "some words and then"),
        (
            "The doctor admirs",
            {},
            "'admirs' is not. Did you mean 'admire.*, that of “singular” first, such as ",
        ),
        ("The doctor xyz", {}, "such as admires, admire, stops, stop, is, are, but 'xyz' is not. Name two"),
        (
            "The house is",
            {},
            "in several pairs of number: is or are; is or were. Name two words with --words",
        ),
        ("The cat sits", {"words": ["sits"]}, "--words is 'sits'"),
        ("The cat sits", {"words": ["sits", "sits"], "cue": "1"}, "Two different words"),
        ("sits", {"words": ["sits", "sit"]}, "some words and then"),
        ("The doctor admires", {"cue": "docter"}, "Did you mean 'doctor'"),
        ("The doctor admires", {"cue": "2"}, "an index from 0 to 1 .* not 2"),
        ("The doctor admires", {"cue": "²"}, "no '²'"),
        ("the doctor the admires", {"cue": "the"}, "index instead: 0, 2"),
    ],
)
def test_what_cannot_be_asked(sentence: str, said: dict[str, Any], parts: str) -> None:
    with pytest.raises(PivotalError, match=parts):
        ask(sentence, **said)
