"""Whether the cue of a question decides which word is right."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from pivotal.questions.pairs import PairSet

_SHUFFLES = 20
"""The number of random labellings that say how well a cue does by chance."""
_FEWEST = 10
"""The fewest items with a repeated cue from which anything can be said."""
_EACH = 4
"""The fewest items for each two words, in the mean, if cues are to be compared whatever the words."""
_MOST_BY_CHANCE = 0.9
"""If a random labelling does as well as this, the labels or the cues vary too little to say anything."""


def contradicted(pairs: PairSet) -> int:
    """The number of prefixes after which each of the same two words, or sets of words, is expected in some pair."""
    labels: dict[tuple[str, tuple[str, str]], set[str]] = {}
    for pair in pairs:
        if pair.label:
            labels.setdefault((pair.prefix, pair.words), set()).add(pair.label)
    return len({prefix for (prefix, _), found in labels.items() if len(found) > 1})


def cue_tells(pairs: PairSet) -> float | None:
    """How well the cue tells which label is right: 1 if each cue word goes with one label, 0 if it does no better than
    with random labels, and None if the pairs cannot say.

    The same cue may call for either label if that depends on the words, as a year does with an earlier or a later one.
    So cues are compared among the pairs with the same words. If each two words have one label, all pairs are compared.
    If almost every pair has words of its own, nothing can be said: what a cue calls for may depend on them.
    """
    items = {
        (pair.prefix, pair.words, pair.label): (pair.cue_word.lower(), pair.words)
        for pair in pairs
        if pair.label and pair.cue is not None
    }
    labels = np.array([pairs.labels.index(label) for _, _, label in items], dtype=np.int64)
    cues, words = [cue for cue, _ in items.values()], [asked for _, asked in items.values()]
    within_words = _tells(list(zip(cues, words, strict=True)), labels, words)
    if within_words is not None or len(cues) < _EACH * len(set(words)):
        return within_words
    return _tells(cues, labels, [""] * len(cues))


def _tells(keys: Sequence[Hashable], labels: np.ndarray, strata: Sequence[Hashable]) -> float | None:
    """How far the most frequent label of each key is above that of labels shuffled within the strata."""
    key, stratum = _numbered(keys), _numbered(strata)
    repeated = np.bincount(key)[key] > 1 if len(key) else np.zeros(0, dtype=bool)
    if repeated.sum() < _FEWEST:
        return None
    key, stratum, labels = key[repeated], stratum[repeated], labels[repeated]
    total = np.bincount(key)

    def right(given: np.ndarray) -> float:
        second = np.bincount(key, weights=given)
        return float(np.maximum(second, total - second).sum() / len(key))

    rng = np.random.default_rng(0)
    place = np.argsort(stratum, kind="stable")
    by_chance = []
    for _ in range(_SHUFFLES):
        shuffled = np.empty_like(labels)
        shuffled[place] = labels[np.lexsort((rng.random(len(labels)), stratum))]
        by_chance.append(right(shuffled))
    chance = float(np.mean(by_chance))
    if chance > _MOST_BY_CHANCE:
        return None
    return max(0.0, (right(labels) - chance) / (1 - chance))


def _numbered(values: Sequence[Hashable]) -> np.ndarray:
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values], dtype=np.int64)
