"""What held-out pairs share with training pairs, and the score on words that the values never saw."""

from dataclasses import replace

import numpy as np
import pytest
from tests.interventions import intervention_of
from tests.planted import PAIRS, PLANTED

from pivotal import Intervention, Problem
from pivotal.evidence.controls import overlap_of, unseen_words
from pivotal.evidence.examination import Examination
from pivotal.problem.objective import Terms
from pivotal.questions import MinimalPair, PairSet

LABELS = ("singular", "plural")


def test_overlap_counts_prefixes_cues_and_words():
    def pair(prefix: str, *words: str) -> MinimalPair:
        return MinimalPair(prefix, 1, (words[0], words[1]))

    train = PairSet("train", LABELS, (pair("The cat", "runs", "run"), pair("A dog", "eats", "eat")))
    test = (
        pair("The cat", "sees", "see"),
        pair("the Cat", "walks|runs", "ran"),
        pair("A horse", "sleeps", "sleep"),
        pair("The horse", "eats", "ate"),
    )
    found = overlap_of(train, PairSet("test", LABELS, test))
    assert (found.prefix, found.cue, found.words) == (0.25, 0.5, 0.5)
    bare = PairSet("bare", LABELS, (MinimalPair("The cat", None, ("runs", "run")),))
    assert overlap_of(train, bare).cue is None, "no cues are not cues that differ"


@pytest.fixture(scope="module")
def halves() -> tuple[Problem, Problem]:
    train, test = PAIRS.split(test=200, seed=0)
    problem = Problem(PLANTED.model, train)
    return problem, problem.on(test)


def planted(problem: Problem) -> Intervention:
    return intervention_of(problem.model, PLANTED.units, np.zeros((2, 3)))  # values are learned again


def test_the_planted_units_hold_for_words_that_their_values_never_saw_and_decoys_do_not(halves):
    train, test = halves
    found = unseen_words(Examination(planted(train), test), train, Terms(), seed=0)
    assert found.slots == ("noun", "verb")
    assert 0 < found.train < len(train) and 0 < found.flip_accuracy.n < len(test)
    assert found.flip_accuracy.value == 1 and found.flip_accuracy.low < 1
    decoys = Examination(replace(planted(train), units=PLANTED.decoys), test)
    assert unseen_words(decoys, train, Terms(), seed=0).flip_accuracy.value == 0


def test_it_is_not_measured_where_words_do_not_vary_or_pairs_are_few(halves):
    train, test = halves
    few = test.restrict(np.arange(6))
    assert unseen_words(Examination(planted(train), few), train, Terms(), seed=0) is None
    same = [replace(pair, lexemes=(("noun", "x"),)) for pair in PAIRS]
    one = Problem(PLANTED.model, PairSet("same", LABELS, tuple(same[:300])))
    assert unseen_words(Examination(planted(one), one), one, Terms(), seed=0) is None


def test_it_is_not_measured_where_one_label_would_be_unseen_as_a_whole():
    """A cue with one form for each label: without one of the forms, no pair trains one of the directions."""
    pairs = tuple(replace(pair, lexemes=(("cue", pair.label),)) for pair in PAIRS[:300])
    problem = Problem(PLANTED.model, PairSet("one form each", LABELS, pairs))
    assert unseen_words(Examination(planted(problem), problem), problem, Terms(), seed=0) is None
