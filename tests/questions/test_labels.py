"""Labels: whether the cue decides them, how they are mapped, and several questions as one."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from pivotal import PivotalError, load_phenomenon
from pivotal.questions import MinimalPair, PairSet
from pivotal.questions.cue_labels import contradicted, cue_tells
from pivotal.questions.question import default_test, names_of
from pivotal.questions.relabel import parse_labels, pooled, relabelled

LABELS = ("first", "second")
PREFIXES = [
    f"The {noun} {verb} the" for noun in ("man", "boy", "king", "judge") for verb in ("saw", "took", "left")
]


def pairs(label_of: Callable[[int, str, int], str], words: list[tuple[str, str]] | None = None) -> PairSet:
    """Every prefix with every two words. `label_of` gets the number of the prefix, the cue and that of the words."""
    made = [
        MinimalPair(prefix, 1, asked, label_of(i, prefix.split()[1], j))
        for i, prefix in enumerate(PREFIXES)
        for j, asked in enumerate(words or [("cat", "dog")])
    ]
    return PairSet("made", LABELS, tuple(made))


def test_a_cue_that_decides_and_labels_that_ignore_it():
    assert cue_tells(pairs(lambda i, cue, j: LABELS[cue in ("man", "king")])) == 1
    assert cue_tells(pairs(lambda i, cue, j: LABELS[i % 2])) == pytest.approx(0, abs=0.3)
    chance = random.Random(0)
    found = cue_tells(pairs(lambda i, cue, j: chance.choice(LABELS), [("a", "b"), ("c", "d")]))
    assert found < 0.5


def test_labels_that_belong_to_the_words_ignore_the_cue():
    words = [("cat", "dog"), ("river", "song")]
    assert cue_tells(pairs(lambda i, cue, j: LABELS[j], words)) == 0


def test_a_cue_may_call_for_either_label_if_that_depends_on_the_words():
    words = [("cat", "dog"), ("river", "song")]
    assert cue_tells(pairs(lambda i, cue, j: LABELS[(cue in ("man", "king")) ^ j], words)) == 1
    assert cue_tells(load_phenomenon("greater-than")) == 1
    assert cue_tells(load_phenomenon("indirect-object")) == 1


def test_pairs_that_cannot_say():
    telling = pairs(lambda i, cue, j: LABELS[cue == "man"])
    assert cue_tells(telling[:3]) is None, "too few"
    assert cue_tells(pairs(lambda i, cue, j: "first")) is None, "one label"
    assert cue_tells(pairs(lambda i, cue, j: "")) is None, "no label"
    without = tuple(replace(pair, cue=None) for pair in telling)
    assert cue_tells(PairSet("made", LABELS, without)) is None, "no cue"
    assert cue_tells(PairSet("made", LABELS, ())) is None
    own = [replace(pair, words=(f"a{i}", f"b{i}"), label=LABELS[i % 2]) for i, pair in enumerate(telling)]
    assert cue_tells(PairSet("made", LABELS, tuple(own))) is None, "each pair has words of its own"


def test_one_prefix_that_expects_both_labels():
    both = pairs(lambda i, cue, j: LABELS[j], [("cat", "dog"), ("cat", "dog")])
    assert contradicted(both) == len(PREFIXES)
    assert contradicted(pairs(lambda i, cue, j: LABELS[j], [("cat", "dog"), ("a", "b")])) == 0


KING = MinimalPair("The king", 1, ("he", "she"), "he", counterfactuals=("The king", "The queen"))
PAIRS = PairSet("some", ("he", "she"), (KING, MinimalPair("The cook", 1, ("he", "she"))))


def test_labels_are_renamed_and_put_in_order():
    found = relabelled(PAIRS, ("female", "male"), {"he": "male", "she": "female"})
    assert found.labels == ("female", "male")
    king, cook = found
    assert king.counterfactuals == ("The queen", "The king")
    assert (king.words, king.label) == (("she", "he"), "male")
    assert (cook.words, cook.label) == (("she", "he"), "")
    assert relabelled(PAIRS, ("he", "she")) == PAIRS
    assert relabelled(PAIRS, ("female", "male")) is None
    assert relabelled(PAIRS, ("he", "male"), {"she": "male"}) is not None, "the other label keeps its name"


def test_parsing():
    assert parse_labels(" he = male, she=female ,") == {"he": "male", "she": "female"}
    for wrong in ("he", "he=", "=male"):
        with pytest.raises(PivotalError, match="as in he=male,she=female, not as"):
            parse_labels(wrong)


MALE = tuple(MinimalPair(f"a {i}", 0, ("he", "she"), "male", "g") for i in range(20))
ONE = PairSet("one", ("male", "female"), MALE)
SELF = MinimalPair("b", 0, ("herself", "himself"), "she", counterfactuals=("x", "y"))
TWO = PairSet("two", ("she", "he"), tuple(replace(SELF, prefix=f"b{i}") for i in range(10)))


def test_a_single_question_stays_as_it_is():
    assert pooled([ONE]) is ONE
    assert names_of("a+b.jsonl") == ["a+b.jsonl"] and names_of("a + b.jsonl") == ["a", "b.jsonl"]


def test_each_question_is_a_group_and_words_follow_the_labels_of_the_first():
    both = pooled([ONE, TWO], {"she": "female", "he": "male"})
    assert both.name == "one + two" and both.labels == ONE.labels and both.groups == {"one": 20, "two": 10}
    last = both.pairs[-1]
    assert (last.words, last.label) == (("himself", "herself"), "female")
    assert last.counterfactuals == ("y", "x")
    assert default_test(both) == default_test(ONE) + default_test(TWO)


def test_the_shares_that_questions_state_are_held_out_of_each():
    half = replace(ONE, held_out=0.5)
    both = pooled([half, TWO], {"she": "female", "he": "male"})
    assert default_test(both) == 10 + default_test(TWO)


@pytest.mark.parametrize(
    ("sets", "labels", "said"),
    [
        ([ONE, TWO], {}, "--labels she=male,he=female"),
        ([ONE, TWO], {"she": "female"}, "two has she and he"),
        ([ONE, TWO], {"she": "female", "it": "male"}, "further questions has the label 'it'"),
        ([ONE], {"male": "female"}, "further questions has the label 'male'"),
        ([ONE, ONE], {}, "questions are named one"),
    ],
)
def test_what_cannot_be_pooled(sets, labels, said):
    with pytest.raises(PivotalError, match=said):
        pooled(sets, labels)
