"""Minimal pairs and sets of them, splits, and pairs that are made of a typed sentence."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotal import PivotalError
from pivotal.questions import MinimalPair, PairSet
from pivotal.questions.minimal_pair import members
from pivotal.questions.sentence import pair_of
from pivotal.questions.words import divided

LABELS = ("singular", "plural")


def test_a_pair_is_normalised():
    pair = MinimalPair("  The\tathlete \n now ", 1, ("runs ", " run"), lexemes=(("verb", "run"), ("a", "b")))
    assert (pair.prefix, pair.words, pair.cue_word) == ("The athlete now", ("runs", "run"), "athlete")
    assert pair.lexemes == (("a", "b"), ("verb", "run"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prefix": " \n "}, "prefix is empty"),
        ({"cue": 3}, "from 0 to 2 into 'The athlete now', not 3"),
        ({"words": ("run", "run ")}, "two different words"),
        ({"words": ("run", "run fast")}, "a word without spaces, but one is 'run fast'"),
        ({"words": ("is|was", "are|was")}, "'was' occurs twice"),
        ({"words": (["is", "a|b"], "are")}, "but 'a|b' does"),
        ({"words": ([], "are")}, "a word or a list of words"),
        ({"group": "a\x00b"}, r"U\+0000"),
        ({"prefix": "The athlete \ud800"}, r"U\+D800"),
        ({"lexemes": (("a", "b"), ("a", "c"))}, "different slots"),
        ({"counterfactuals": ("The athletes now", "The athletes")}, r"as many words as the prefix, 3"),
    ],
)
def test_a_bad_pair_is_refused(changes, message):
    good = {"prefix": "The athlete now", "cue": 1, "words": ("runs", "run")}
    with pytest.raises(PivotalError, match=message):
        MinimalPair(**{**good, **changes})


@pytest.mark.parametrize(
    ("entry", "words"),
    [("is", ("is",)), ("is|was|has", ("is", "was", "has")), ("|", ("|",)), ("a|", ("a|",))],
)
def test_the_words_of_an_entry(entry, words):
    assert members(entry) == words


def test_lists_and_texts_are_the_same_pair():
    text = MinimalPair("The doctor", 1, ("is|was", "are|were"))
    listed = MinimalPair("The doctor", 1, [["is", " was "], ["are", "were"]])
    assert listed == text
    assert text.word_sets == (("is", "was"), ("are", "were"))
    assert MinimalPair("The doctor", 1, ("is", "are")).word_sets == (("is",), ("are",))


def test_a_typed_sentence_ends_in_any_word_of_a_set():
    known = PairSet("sets", LABELS, (MinimalPair("The doctor", 1, ("is|was", "are|were"), "singular"),))
    pair, _ = pair_of("The doctor was", LABELS, lambda: known)
    assert (pair.prefix, pair.words) == ("The doctor", ("is|was", "are|were"))
    pair, _ = pair_of("The doctor has", LABELS, lambda: known, words=["has|does", "have|do"])
    assert (pair.prefix, pair.words) == ("The doctor", ("has|does", "have|do"))


def grid(subjects: int = 12, verbs: int = 10) -> PairSet:
    """Every subject with every verb, in two groups and both labels."""
    pairs = [
        MinimalPair(
            f"The noun{s}{'s' * (label == 'plural')} {group}",
            1,
            (f"verb{v}s", f"verb{v}"),
            label,
            group,
            (("subject", f"noun{s}"), ("verb", f"verb{v}")),
        )
        for group in ("now", "often")
        for label in LABELS
        for s in range(subjects)
        for v in range(verbs)
    ]
    return PairSet("grid", LABELS, tuple(pairs))


def test_a_set_is_a_sequence():
    pairs = grid()
    assert len(pairs) == 480 and pairs.groups == {"now": 240, "often": 240}
    assert pairs[0] is next(iter(pairs)) and pairs[:3].pairs == pairs.pairs[:3]
    assert pairs.fingerprint() == PairSet("other", LABELS, pairs.pairs).fingerprint()
    assert pairs.fingerprint() != pairs[1:].fingerprint()
    assert pairs.fingerprint() != PairSet("grid", LABELS, pairs.pairs[::-1]).fingerprint()
    assert len(pairs.fingerprint()) == 16


# -- splits --


@given(st.integers(1, 479), st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_a_split_by_pairs_is_a_partition_and_stratified(test, seed):
    pairs = grid()
    train, held = pairs.split(test=test, seed=seed, by="pairs")
    assert len(held) == test and train.dropped == 0
    assert not set(train) & set(held) and set(train) | set(held) == set(pairs)
    counts = [sum((p.group, p.label) == (g, c) for p in held) for g in pairs.groups for c in LABELS]
    assert max(counts) - min(counts) <= 1


@given(st.integers(1, 479), st.integers(0, 1000), st.integers(1, 9))
@settings(max_examples=30, deadline=None)
def test_a_split_by_prefixes_shares_no_prefix_and_is_stratified(test, seed, most):
    """`most` limits the pairs of a prefix, so that prefixes of many sizes occur."""
    pairs = grid()
    of_prefix = {}
    for pair in pairs:
        of_prefix.setdefault(pair.prefix, []).append(pair)
    uneven = tuple(pair for i, own in enumerate(of_prefix.values()) for pair in own[: 1 + i % most])
    pairs = PairSet("uneven", LABELS, uneven)
    test = min(test, len(pairs) - 1)
    train, held = pairs.split(test=test, seed=seed)
    assert not {p.prefix for p in train} & {p.prefix for p in held}
    assert train.dropped == 0 and set(train) | set(held) == set(pairs) and len(train) and len(held)
    assert (train, held) == pairs.split(test=test, seed=seed, by="prefixes")
    assert abs(len(held) - test) <= most
    for group in pairs.groups:
        for label in LABELS:
            everywhere, here = (
                [(p.group, p.label) for p in part].count((group, label)) for part in (pairs, held)
            )
            assert abs(here - test * everywhere / len(pairs)) <= most


def test_a_split_by_prefixes_needs_two_of_them():
    same = tuple(MinimalPair("The cat", 1, words) for words in (("runs", "run"), ("eats", "eat")))
    with pytest.raises(PivotalError, match="needs two prefixes, but there is 1"):
        PairSet("one", LABELS, same).split(test=1)
    train, held = PairSet("two", LABELS, (*same, MinimalPair("The dog", 1, ("runs", "run")))).split(test=2)
    assert {len(train), len(held)} == {1, 2}


@given(st.integers(1, 250), st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_a_split_by_words_shares_no_lemma(test, seed):
    pairs = grid()
    train, held = pairs.split(test=test, seed=seed, by="words")
    assert len(held) == test and train and train.dropped == len(pairs) - len(train) - test
    for slot in ("subject", "verb"):
        seen, unseen = ({dict(p.lexemes)[slot] for p in part} for part in (train, held))
        assert not seen & unseen


def test_a_split_by_words_without_lexemes_uses_the_words():
    plain = tuple(MinimalPair(p.prefix, 1, p.words, p.label, p.group) for p in grid())
    train, held = PairSet("plain", LABELS, plain).split(test=40, by="words")
    assert not {p.cue_word for p in train} & {p.cue_word for p in held}
    assert not {p.words for p in train} & {p.words for p in held}
    # One pair of words cannot be held out, so only the cue counts and nothing but the surplus is dropped.
    same = tuple(MinimalPair(p.prefix, 1, ("is", "are"), p.label, p.group) for p in grid())
    train, held = PairSet("same", LABELS, same).split(test=40, by="words")
    assert train.dropped == 0 and len(train) == 440
    assert not {p.cue_word for p in train} & {p.cue_word for p in held}


def test_a_fraction_and_a_sample():
    pairs = grid()
    assert len(pairs.split(test=0.25)[1]) == pytest.approx(120, abs=10)
    assert len(pairs.sample(7, seed=3)) == 7 and pairs.sample(480) == pairs
    assert pairs.sample(50, seed=1) == pairs.sample(50, seed=1) != pairs.sample(50, seed=2)


@pytest.mark.parametrize("test", [0, -3, 480, 1000, 0.0001, 1.5, float("nan"), float("inf")])
def test_a_bad_test_size_is_refused(test):
    with pytest.raises(PivotalError, match="The test part"):
        grid().split(test=test)


def test_other_bad_requests_are_refused():
    with pytest.raises(
        PivotalError, match=r"'dual' is not one of the two labels.*Available: plural, singular"
    ):
        PairSet("x", LABELS, (MinimalPair("The cat", 1, ("runs", "run"), "dual"),))
    with pytest.raises(PivotalError, match=r"Did you mean 'prefixes'\?"):
        grid().split(test=10, by="prefix")
    with pytest.raises(PivotalError, match=r"450 test pairs.*subject: 12, verb: 10"):
        grid().split(test=450, by="words")
    with pytest.raises(PivotalError, match=r"two lemmas in some slot, .* subject: 1, verb: 1"):
        grid(1, 1).split(test=1, by="words")
    with pytest.raises(PivotalError, match="from 1 to 480"):
        grid().sample(481)


PREFIXES = (("The doctor", 1), ("The doctors near the car", 1), ("The cars", 1), ("A very old house", 3))
VERBS = (("admires", "admire"), ("admires", "admire"), ("stops", "stop"), ("is", "are"))
HOUSES = tuple(MinimalPair("The house", 1, words) for words in (("is", "are"), ("is", "were")))
PAIRS = tuple(MinimalPair(*place, words) for place, words in zip(PREFIXES, VERBS, strict=True))
KNOWN = PairSet("number", LABELS, PAIRS + HOUSES)


def ask(sentence: str, **said: Any) -> tuple[MinimalPair, bool]:
    return pair_of(sentence, LABELS, lambda: KNOWN, **said)


@pytest.mark.parametrize(
    ("sentence", "said", "pair"),
    [
        ("The doctor near the cars admires", {}, MinimalPair("The doctor near the cars", 1, ("admires", "admire"))),
        # What follows the word asked about is left out.
        ("The doctor near the cars admires the old house", {},
         MinimalPair("The doctor near the cars", 1, ("admires", "admire"))),
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
def test_a_sentence_becomes_a_pair(sentence, said, pair):
    assert ask(sentence, **said) == (pair, True)


def test_without_a_cue_only_where_none_is_needed():
    assert ask("Those cats stop", at_cue=False) == (MinimalPair("Those cats", 0, ("stops", "stop")), False)
    with pytest.raises(PivotalError, match=r"no word of “Those cats” is a cue .*--cue: one of Those, cats"):
        ask("Those cats stop")


@pytest.mark.parametrize(
    ("sentence", "said", "parts"),
    [
        ("The doctor of house stop", {}, "or more than one is"),
        ("admires", {}, "ends in the word asked about"),
        ("The doctor admirs", {}, "'admirs' is not. Did you mean 'admire.*, that of “singular” first"),
        ("The doctor xyz", {}, "such as admires, admire, stops, stop, is, are, but 'xyz' is not. Name two"),
        ("The house is", {}, "in several pairs of words of number: is or are; is or were. Name two words"),
        ("The cat sits", {"words": ["sits"]}, "--words is 'sits'"),
        ("The doctor admires", {"cue": "docter"}, "Did you mean 'doctor'"),
        ("the doctor the admires", {"cue": "the"}, "index instead: 0 or 2"),
    ],
)
def test_what_cannot_be_asked(sentence, said, parts):
    with pytest.raises(PivotalError, match=parts):
        ask(sentence, **said)


TEXT = "ca n't does Dawn 's patients ' , . “ ” cannot it ma'am car"
TOKENS = set(TEXT.split())


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("can't", ("ca", "n't")),
        ("doesn’t", ("does", "n't")),
        ("Dawn's", ("Dawn", "'s")),
        ("ma'am", ("ma'am",)),
        ("car,", ("car", ",")),
        ("zebra", None),
        ("car!", None),  # the mark is not known
        ("", None),
    ],
)
def test_parts(word, parts):
    assert divided(word, TOKENS.__contains__) == parts
