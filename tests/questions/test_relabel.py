"""Labels that are mapped, and several questions as one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pivotal.errors import PivotalError
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.questions.question import default_test, names_of
from pivotal.questions.relabel import parse_labels, pooled, relabelled

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


ONE = PairSet(
    "one", ("male", "female"), tuple(MinimalPair(f"a {i}", 0, ("he", "she"), "male", "g") for i in range(20))
)
TWO = PairSet(
    "two",
    ("she", "he"),
    tuple(
        MinimalPair(f"b {i}", 0, ("herself", "himself"), "she", counterfactuals=("b x", "b y"))
        for i in range(10)
    ),
)


def test_a_single_question_stays_as_it_is() -> None:
    assert pooled([ONE]) is ONE
    assert names_of("a+b.jsonl") == ["a+b.jsonl"] and names_of("a + b.jsonl") == ["a", "b.jsonl"]


def test_each_question_is_a_group_and_words_follow_the_labels_of_the_first() -> None:
    both = pooled([ONE, TWO], {"she": "female", "he": "male"})
    assert both.name == "one + two" and both.labels == ONE.labels and both.groups == {"one": 20, "two": 10}
    last = both.pairs[-1]
    assert (
        last.words == ("himself", "herself")
        and last.label == "female"
        and last.counterfactuals == ("b y", "b x")
    )
    assert default_test(both) == default_test(ONE) + default_test(TWO)


def test_the_shares_that_questions_state_are_held_out_of_each() -> None:
    half = replace(ONE, held_out=0.5)
    both = pooled([half, TWO], {"she": "female", "he": "male"})
    assert default_test(both) == 10 + default_test(TWO)


@pytest.mark.parametrize(
    ("sets", "labels", "said"),
    [
        ([ONE, TWO], {}, "--labels she=male,he=female"),
        ([ONE, TWO], {"she": "female"}, "two has she and he"),
        ([ONE, TWO], {"she": "female", "it": "male"}, "none of these questions has the label 'it'"),
        ([ONE], {"male": "female"}, "none of these questions has the label 'male'"),
        ([ONE, ONE], {}, "two are named one"),
    ],
)
def test_what_cannot_be_pooled(sets: list[PairSet], labels: dict[str, str], said: str) -> None:
    with pytest.raises(PivotalError, match=said):
        pooled(sets, labels)
