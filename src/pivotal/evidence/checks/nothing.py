"""The same search where there is nothing to find: permuted labels, and shuffled weights."""

from __future__ import annotations

import random
from dataclasses import replace

from pivotal.evidence.scores import score_many
from pivotal.problem.problem import Problem
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.records.evidence import NullSearch
from pivotal.searches.base import Search

_SEED = 7_919
"""Added to the seed of the run, so that the permutation does not repeat the split's random numbers."""


def permuted(pairs: PairSet, seed: int = 0) -> PairSet:
    """Exchange the two words of a random half of the prefixes. What a label means then depends on the sentence, so no
    unit can carry it. Pairs of one prefix are exchanged together."""
    prefixes = sorted({pair.prefix for pair in pairs})
    random.Random(seed).shuffle(prefixes)
    half = set(prefixes[: len(prefixes) // 2])
    return replace(
        pairs, pairs=tuple(_exchanged(pair, pairs.labels) if pair.prefix in half else pair for pair in pairs)
    )


def _exchanged(pair: MinimalPair, labels: tuple[str, str]) -> MinimalPair:
    other = {labels[0]: labels[1], labels[1]: labels[0]}
    first, second = pair.words
    return replace(
        pair,
        words=(second, first),
        label=other.get(pair.label, ""),
        counterfactuals=pair.counterfactuals[::-1],
    )


def search_permuted(search: Search, train: Problem, test: Problem, *, repeats: int, seed: int) -> NullSearch:
    """The same search with permuted labels. The held-out pairs are permuted too: a search that learned the exchanged
    words of single prefixes would not flip them. A basis that is fitted to labels is fitted to the permuted ones."""
    bare = train.model.without_bases() if train.model.bases else None
    there = train.on(permuted(train.pairs, seed + _SEED), model=bare).keeping(train.kept)
    held_out = test.on(permuted(test.pairs, seed + _SEED), model=there.model if bare else None)
    return _repeated(search, there, held_out, repeats, seed)


def search_shuffled(search: Search, train: Problem, test: Problem, *, repeats: int, seed: int) -> NullSearch:
    """The same search in the model with shuffled weights."""
    there = train.on(train.pairs, model=train.model.shuffled(seed)).keeping(train.kept)
    return _repeated(search, there, test.on(test.pairs, model=there.model), repeats, seed)


def _repeated(search: Search, train: Problem, test: Problem, repeats: int, seed: int) -> NullSearch:
    found = search.solve(train, runs=repeats, seed=seed)
    flips, _, _ = score_many(found.interventions, test)
    return NullSearch(
        flip_accuracy=tuple(flips.mean(1).tolist()),
        units=tuple(len(intervention) for intervention in found.interventions),
        clean_accuracy=test.clean_accuracy,
    )
