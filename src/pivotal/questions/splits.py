"""Split items into a training part and a test part. The functions work on indices."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Literal

from pivotal.errors import PivotalError

Split = Literal["prefixes", "words", "pairs"]
"""Hold out whole prefixes, whole lemmas, or single pairs."""

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


def by_prefix(
    prefixes: Sequence[str], strata: Sequence[Hashable], test: int, rng: random.Random
) -> tuple[list[int], list[int]]:
    """Train and test indices such that no prefix is in both parts. The test part has about `test` items.

    A prefix belongs to the stratum of its first item. Each stratum is sampled in proportion, as far as whole prefixes
    allow, and what one stratum gives too much or too little is made up by the next.
    """
    members: dict[str, list[int]] = defaultdict(list)
    for index, prefix in enumerate(prefixes):
        members[prefix].append(index)
    if len(members) < 2:
        raise PivotalError(
            f"A split by prefixes needs two prefixes, but there is {len(members)}. Add others, or split by='pairs'."
        )
    order = list(members)
    rng.shuffle(order)
    by_stratum: dict[Hashable, list[str]] = defaultdict(list)
    for prefix in order:
        by_stratum[strata[members[prefix][0]]].append(prefix)
    held: list[str] = []
    owed = 0.0
    for group in by_stratum.values():
        owed += test * sum(len(members[prefix]) for prefix in group) / len(prefixes)
        for prefix in group:
            if 2 * owed >= len(members[prefix]):  # closer to the share with this prefix than without it
                held.append(prefix)
                owed -= len(members[prefix])
    smallest_first = sorted(order, key=lambda prefix: len(members[prefix]))
    held = held or smallest_first[:1]
    if len(held) == len(members):
        held.remove(smallest_first[0])
    test_part = sorted(index for prefix in held for index in members[prefix])
    inside = set(test_part)
    return [i for i in range(len(prefixes)) if i not in inside], test_part


def lexical(
    lexemes: Sequence[Lexemes], strata: Sequence[Hashable], test: int, rng: random.Random
) -> tuple[list[int], list[int]]:
    """Train and test indices such that no lemma of any slot is in both parts.

    An item with some held-out and some other lemmas is in neither part. A slot with one lemma cannot be held out and is
    ignored.
    """
    ranks = shuffled_ranks(lexemes, rng)
    if not ranks:
        found = ", ".join(f"{slot}: 1" for slot in sorted({slot for item in lexemes for slot, _ in item}))
        said = f"A split by words needs two lemmas in some slot, but this set has {found or 'none'}."
        raise PivotalError(f"{said} Give the pairs 'lexemes', or split by='prefixes'.")
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
            f"A split by words cannot give {test} test pairs and leave pairs to train on, with the lemmas of this set "
            f"({sizes}). Ask for fewer, or split by='prefixes'."
        )
    kept = stratified([strata[i] for i in test_part], test, rng)
    return train_part, [test_part[i] for i in kept]


def shuffled_ranks(lexemes: Sequence[Lexemes], rng: random.Random) -> dict[str, dict[str, int]]:
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
    return ranks
