"""Words that a model does not know: read as <unk>, in lower case, or refused with the cure."""

from dataclasses import replace
from functools import cache

import pytest
from tests.models.small import recurrent

from pivotal import PivotalError, Problem
from pivotal.models import RecurrentLM
from pivotal.problem.text import options_for_more, with_unknown
from pivotal.questions import MinimalPair, PairSet

WORDS = ["<eos>", "<unk>", "the", "cat", "cats", "near", "sleeps", "sleep"]
ASKED = ("sleeps", "sleep")


@cache
def model(unk: bool = True) -> RecurrentLM:
    return recurrent([word for word in WORDS if unk or word != "<unk>"])


def pairs(*prefixes: str, cue: int | None = 1, words: tuple[str, str] = ASKED) -> PairSet:
    made = tuple(MinimalPair(prefix, cue, words, "a", counterfactuals=("", "")) for prefix in prefixes)
    return PairSet("some", ("a", "b"), made)


def test_unknown_words_are_counted():
    given = pairs("the cat", "the cat near the zebra", "the zebra near the cat", "the cats near zebra dax")
    read = with_unknown(model(), given)
    assert [pair.prefix for pair in read] == [
        "the cat",
        "the cat near the <unk>",
        "the zebra near the cat",  # the cue is unknown
        "the cats near <unk> <unk>",
    ]
    assert read.notes == (
        "Read unknown words as <unk> in 2 of 4 pairs: zebra (2), dax (1).",
        "The cue is unknown in 1 of 4 pairs, so the model cannot score them.",
    )
    problem = Problem(model(), read)
    assert (len(problem), problem.rejected.describe()) == (3, "outside the vocabulary: zebra (1)")
    assert with_unknown(model(), given[:1]) == given[:1]


def test_the_reason_names_unknown_words_of_the_prefix_and_of_the_answers():
    given = PairSet("some", ("a", "b"), (*pairs("the zebra", words=("dax", "sleep")), *pairs("the cat")))
    described = Problem(model(), given).rejected.describe()
    assert described == "outside the vocabulary: zebra (1), dax (1)"


def test_counterfactuals_are_read_alike():
    pair = replace(
        pairs("the cat near zebra")[0], counterfactuals=("the cat near zebra", "the lions near zebra")
    )
    (read,) = with_unknown(model(), PairSet("one", ("a", "b"), (pair,)))
    assert read.counterfactuals == ("the cat near <unk>", "the lions near <unk>"), "not the cue"


@pytest.mark.parametrize(
    ("given", "steps", "cure"),
    [
        (
            pairs("The Cat", words=("Sleeps", "Sleep")),
            "every",
            "In lower case the model knows the words: use --lower",
        ),
        (
            pairs("the cat near the zebra"),
            "every",
            "--unknown unk reads the unknown words of prefixes as <unk>",
        ),
        (pairs("the cat", cue=None), "single", "The pairs have no cue: use --steps every"),
        (
            pairs("the cat", words=("dax", "zup")),
            "every",
            "Use words that the model knows .*`pivotal check MODEL",
        ),
    ],
)
def test_the_cure_is_named_if_nothing_can_be_asked(given, steps, cure):
    with pytest.raises(PivotalError, match=f"small cannot score the only pair: .*{cure}"):
        Problem(model(), given, steps=steps)


def test_options_that_let_more_pairs_be_asked():
    given = pairs("the cat", "the cat near the zebra", "The cat", "THE CAT near dax")
    assert options_for_more(model(), given, "every", asked=1) == (
        "With --unknown unk, 3 of 4 pairs can be scored.",
        "With --lower, 2 of 4 pairs can be scored.",
    )
    assert options_for_more(model(), given[:1], "every", asked=1) == ()


def test_pairs_without_a_cue_are_asked_at_every_step():
    problem = Problem(model(), PairSet("two", ("a", "b"), (*pairs("the cat", cue=None), *pairs("the cats"))))
    assert len(problem) == 2
    single = Problem(model(), problem.pairs, steps="single")
    assert (len(single), single.rejected.describe()) == (1, "no cue, which a single step needs (1)")
