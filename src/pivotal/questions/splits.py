"""Split items into a training part and a test part. The functions work on indices."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Literal

from pivotal.errors import PivotalError

Split = Literal["random", "lexical"]
"""Hold out random pairs, or whole lemmas."""

Lexemes = Sequence[tuple[str, str]]

# The number of steps of the held-out share. A step is finer than one lemma of any slot we expect.
_SHARES = 4096


def stratified(strata: Sequence[Hashable], n: int, rng: random.Random) -> list[int]:
    """A random sample of `n` indices in ascending order, stratified: each stratum is sampled in proportion."""
    members: dict[Hashable, list[int]] = defaultdict(list)
    for index, stratum in enumerate(strata):
        members[stratum].append(index)
    exact = {stratum: n * len(indices) / len(strata) for stratum, indices in members.items()}
    quota = {stratum: int(share) for stratum, share in exact.items()}
    # The largest remainders come first. Ties are broken at random, so that no stratum is preferred.
    by_remainder = list(members)
    rng.shuffle(by_remainder)
    by_remainder.sort(key=lambda stratum: quota[stratum] - exact[stratum])
    for stratum in by_remainder[: n - sum(quota.values())]:
        quota[stratum] += 1
    chosen: list[int] = []
    for stratum, indices in members.items():
        chosen += rng.sample(indices, quota[stratum])
    return sorted(chosen)


def lexical(
    lexemes: Sequence[Lexemes], strata: Sequence[Hashable], test: int, rng: random.Random
) -> tuple[list[int], list[int]]:
    """Train and test indices such that no lemma of any slot is in both parts.

    An item with some held-out and some other lemmas is in neither part. A slot with one lemma cannot be held out and is
    ignored.
    """
    ranks = _shuffled_ranks(lexemes, rng)
    # An item is in the test part if all its lemmas rank below the cut of their slot.
    items = [[(slot, ranks[slot][lemma]) for slot, lemma in item if slot in ranks] for item in lexemes]

    def cuts(share: int) -> dict[str, int]:
        return {
            slot: min(len(rank) - 1, max(1, round(share * len(rank) / _SHARES)))
            for slot, rank in ranks.items()
        }

    def held_out(share: int) -> list[int]:
        cut = cuts(share)
        return [i for i, item in enumerate(items) if item and all(rank < cut[slot] for slot, rank in item)]

    # A larger share holds out a superset, so bisection finds the smallest share that is large enough.
    low, high = 0, _SHARES
    while low < high:
        middle = (low + high) // 2
        if len(held_out(middle)) >= test:
            high = middle
        else:
            low = middle + 1
    test_part = held_out(low)
    cut = cuts(low)
    train_part = [i for i, item in enumerate(items) if item and all(rank >= cut[slot] for slot, rank in item)]
    if len(test_part) < test or not train_part:
        sizes = ", ".join(f"{slot}: {len(rank)}" for slot, rank in ranks.items())
        raise PivotalError(
            f"A lexical split keeps every lemma on one side; with the lemmas of this set ({sizes}) it cannot "
            f"give {test} test pairs and leave pairs to train on. Ask for fewer or use by='random'."
        )
    kept = stratified([strata[i] for i in test_part], test, rng)
    return train_part, [test_part[i] for i in kept]


def _shuffled_ranks(lexemes: Sequence[Lexemes], rng: random.Random) -> dict[str, dict[str, int]]:
    """For every slot with at least two lemmas, the rank of each lemma in a random order."""
    slots: dict[str, set[str]] = defaultdict(set)
    for item in lexemes:
        for slot, lemma in item:
            slots[slot].add(lemma)
    ranks: dict[str, dict[str, int]] = {}
    for slot in sorted(slots):
        lemmas = sorted(slots[slot])
        rng.shuffle(lemmas)
        if len(lemmas) > 1:
            ranks[slot] = {lemma: rank for rank, lemma in enumerate(lemmas)}
    if not ranks:
        found = ", ".join(f"{slot}: {len(lemmas)}" for slot, lemmas in sorted(slots.items()))
        raise PivotalError(
            f"A lexical split needs at least two lemmas in some slot; this set has {found or 'none'}. "
            "Give the pairs 'lexemes' or use by='random'."
        )
    return ranks
