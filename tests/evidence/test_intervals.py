"""Intervals of shares: the usual ones for independent pairs; valid for clusters, near the edges and for few of them."""

import math

import numpy as np
import pytest

from pivotal.evidence.intervals import (
    change_of,
    clustered_variance,
    clusters_of,
    effective_number,
    exact_low,
    interval,
    ratio_of,
    share_of,
    student_quantile,
)
from pivotal.questions import MinimalPair, PairSet


@pytest.mark.parametrize(("p", "n"), [(0.25, 4), (0.5, 20), (0.999, 3000)])
def test_between_the_edges_the_ends_are_those_of_a_score_test(p, n):
    """A share is inside Wilson's interval if and only if the normal test does not reject it."""
    for end in interval(p, n):
        assert abs(p - end) / math.sqrt(end * (1 - end) / n) == pytest.approx(1.96, abs=0.001)


@pytest.mark.parametrize("n", [1, 7, 1000])
def test_at_the_edges_the_end_leaves_a_fortieth(n):
    (low, high), (low_of_none, high_of_none) = interval(1.0, n), interval(0.0, n)
    assert low**n == pytest.approx(0.025) and high == 1
    assert (low_of_none, high_of_none) == (0, pytest.approx(1 - low))


@pytest.mark.parametrize("n", [1, 7, 3000])
def test_the_exact_end_leaves_its_tail_however_many_there_are(n):
    assert exact_low(n, n, 0.01) ** n == pytest.approx(0.01)
    assert exact_low(0, n, 0.01) == 0
    assert exact_low(n // 2, n, 0.025) <= interval((n // 2) / n, n)[0] + 1e-3


def test_quantiles_of_students_t():
    """Printed in every table."""
    for freedom, quantile in ((1, 12.706), (2, 4.303), (3, 3.182), (10, 2.228), (30, 2.042), (10**4, 1.960)):
        assert student_quantile(freedom) == pytest.approx(quantile, rel=0.01)


def test_without_clusters_it_is_the_plain_interval():
    hits = np.arange(400) % 8 > 0
    share = share_of(hits, np.arange(400))
    low, high = interval(share.value, 400)
    assert share.value == 0.875 and share.n == 400
    assert (share.low, share.high) == (pytest.approx(low, abs=1e-3), pytest.approx(high, abs=1e-3))


def test_certain_outcomes_have_an_interval():
    one = share_of(np.ones(1, bool), np.zeros(1))
    assert (one.value, one.low, one.high) == (1, pytest.approx(0.025), 1)
    # Thirty copies of one pair are one observation, too.
    copies = share_of(np.ones(30, bool), np.zeros(30))
    assert (copies.low, copies.high) == (one.low, one.high)
    none = share_of(np.zeros(40, bool), np.repeat(np.arange(20), 2))
    assert (none.low, none.high) == (0, pytest.approx(interval(0.0, 20)[1]))
    empty = share_of(np.ones(3, bool), np.arange(3), np.zeros(3, bool))
    assert math.isnan(empty.value) and (empty.low, empty.high, empty.n) == (0, 1, 0)


def test_pairs_that_share_a_prefix_are_no_further_evidence():
    hits, clusters = np.arange(60) % 3 > 0, np.arange(60)
    once, five_times = (
        effective_number(hits, clusters),
        effective_number(np.repeat(hits, 5), np.repeat(clusters, 5)),
    )
    assert five_times == pytest.approx(once, rel=0.05)


@pytest.mark.parametrize("p", [0, 0.02, 0.5, 0.98, 1])
@pytest.mark.parametrize("alike", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("clusters", [6, 40])
def test_the_interval_covers_the_true_share(p, alike, clusters):
    """Clusters of 1 to 15 pairs; `alike` is the correlation of two pairs of a cluster."""
    rng = np.random.default_rng(round(100 * p + 10 * alike + clusters))
    covered = []
    for _ in range(250):
        of = np.repeat(np.arange(clusters), rng.integers(1, 16, clusters))
        own = rng.random(clusters) < p
        copied = rng.random(len(of)) < math.sqrt(alike)
        share = share_of(np.where(copied, own[of], rng.random(len(of)) < p), of)
        covered.append(share.low <= p <= share.high)
    assert np.mean(covered) >= 0.93


@pytest.mark.parametrize("falls, rises", [(0, 0), (0.03, 0), (0.2, 0.1), (0.5, 0.5)])
@pytest.mark.parametrize("alike", [0.0, 1.0])
def test_the_interval_covers_the_true_change(falls, rises, alike):
    rng = np.random.default_rng(round(100 * falls + 10 * rises + alike))
    covered = []
    for _ in range(250):
        of = np.repeat(np.arange(40), rng.integers(1, 8, 40))
        drawn = np.where(rng.random(len(of)) < alike, rng.random(40)[of], rng.random(len(of)))
        change = change_of((drawn > 1 - rises).astype(int) - (drawn < falls), of)
        covered.append(change.low <= rises - falls <= change.high)
    assert np.mean(covered) >= 0.93
    assert change.high - change.low < (0.4 if alike == 0 else 0.8)


def test_the_interval_of_a_ratio_knows_crossed_clusters():
    rng, crossed, by_prefix = np.random.default_rng(0), [], []
    nouns, verbs = (kind.ravel() for kind in np.meshgrid(np.arange(20), np.arange(15)))
    for _ in range(250):
        whole = 1 + rng.random(300)
        part = whole * (0.5 + 0.1 * rng.normal(size=20)[nouns] + 0.1 * rng.normal(size=15)[verbs])
        for clusters, covered in ((np.array([nouns, verbs]), crossed), (np.arange(300), by_prefix)):
            share = ratio_of(part, whole, clusters)
            covered.append(share.low <= 0.5 <= share.high)
    assert np.mean(crossed) >= 0.9 > 0.6 > np.mean(by_prefix)
    same = ratio_of(*(np.append(each, each) for each in (part, whole, np.arange(300))))
    assert (same.value, same.low, same.high) == pytest.approx((share.value, share.low, share.high))


def test_the_clustered_error_against_the_naive_one():
    values = np.random.default_rng(0).normal(size=40)
    off = values - values.mean()
    assert clustered_variance(off, np.arange(40)) == pytest.approx(values.var(ddof=1) / 40)
    expected = pytest.approx(values.var(ddof=1) / 40)
    assert clustered_variance(np.repeat(off, 9), np.repeat(np.arange(40), 9)) == expected


def test_crossed_clusters_cover_a_share_that_depends_on_noun_and_verb():
    rng, crossed, by_prefix = np.random.default_rng(0), [], []
    nouns, verbs = (kind.ravel() for kind in np.meshgrid(np.arange(20), np.arange(15)))
    for _ in range(250):
        chance = rng.normal(size=20)[nouns] + rng.normal(size=15)[verbs] + rng.normal(size=300) > 0
        for clusters, covered in ((np.array([nouns, verbs]), crossed), (np.arange(300), by_prefix)):
            share = share_of(chance, clusters)
            covered.append(share.low <= 0.5 <= share.high)
    assert np.mean(crossed) >= 0.9 > 0.6 > np.mean(by_prefix)


def test_words_are_clusters_where_there_are_several():
    def pairs(nouns: int, verbs: int) -> PairSet:
        made = (
            MinimalPair(
                f"The n{i % nouns} {i}", 1, words, "one", counterfactuals=(f"The m{i % nouns} {i}", "")
            )
            for i in range(40)
            for words in ((f"v{i % verbs}", f"w{i % verbs}"),)
        )
        return PairSet("words", ("one", "many"), tuple(made))

    assert clusters_of(pairs(1, 1)).shape == (1, 40)
    assert [len(set(kind)) for kind in clusters_of(pairs(10, 8)).tolist()] == [40, 10, 8]
    assert [len(set(kind)) for kind in clusters_of(pairs(7, 8)).tolist()] == [40, 8]


def test_a_partner_may_be_shorter_than_the_place_of_the_cue():
    pair = MinimalPair("Tell me a lie", 3, ("", ""), "lie", counterfactuals=("Tell me a lie", "Speak up"))
    assert clusters_of(PairSet("said", ("lie", "truth"), (pair,))).tolist() == [[0]]
