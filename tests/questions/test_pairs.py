"""Sets of pairs, and their splits."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotal.errors import PivotalError
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet

LABELS = ("singular", "plural")


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


def test_labels_are_checked():
    with pytest.raises(PivotalError, match="two different labels"):
        PairSet("x", ("a", "a"), ())
    with pytest.raises(PivotalError, match=r"not 'dual'.*Available: plural, singular"):
        PairSet("x", LABELS, (MinimalPair("The cat", 1, ("runs", "run"), "dual"),))


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
                sum((p.group, p.label) == (group, label) for p in part) for part in (pairs, held)
            )
            assert abs(here - test * everywhere / len(pairs)) <= most


def test_a_split_by_prefixes_needs_two_of_them():
    same = tuple(MinimalPair("The cat", 1, words) for words in (("runs", "run"), ("eats", "eat")))
    with pytest.raises(PivotalError, match=r"needs two prefixes or more, but the 2 pairs have 1"):
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
    with pytest.raises(PivotalError, match=r"Did you mean 'prefixes'\?"):
        grid().split(test=10, by="prefix")
    with pytest.raises(PivotalError, match=r"subject: 12, verb: 10.*450 test pairs"):
        grid().split(test=450, by="words")
    with pytest.raises(
        PivotalError, match=r"at least two lemmas in some slot; this set has subject: 1, verb: 1"
    ):
        grid(1, 1).split(test=1, by="words")
    with pytest.raises(PivotalError, match="between 1 and 480"):
        grid().sample(481)
