"""Whether the cue decides which word is right."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from pivotal.questions.cue_labels import contradicted, cue_tells
from pivotal.questions.pairs import MinimalPair, PairSet
from pivotal.questions.phenomena import load_phenomenon

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


def test_a_cue_that_decides_and_labels_that_ignore_it() -> None:
    assert cue_tells(pairs(lambda i, cue, j: LABELS[cue in ("man", "king")])) == 1
    assert cue_tells(pairs(lambda i, cue, j: LABELS[i % 2])) == pytest.approx(0, abs=0.3)
    chance = random.Random(0)
    found = cue_tells(pairs(lambda i, cue, j: chance.choice(LABELS), [("a", "b"), ("c", "d")]))
    assert found is not None and found < 0.5


def test_labels_that_belong_to_the_words_ignore_the_cue() -> None:
    words = [("cat", "dog"), ("river", "song")]
    assert cue_tells(pairs(lambda i, cue, j: LABELS[j], words)) == 0


def test_a_cue_may_call_for_either_label_if_that_depends_on_the_words() -> None:
    words = [("cat", "dog"), ("river", "song")]
    assert cue_tells(pairs(lambda i, cue, j: LABELS[(cue in ("man", "king")) ^ j], words)) == 1
    assert cue_tells(load_phenomenon("greater-than")) == 1
    assert cue_tells(load_phenomenon("indirect-object")) == 1


def test_pairs_that_cannot_say() -> None:
    telling = pairs(lambda i, cue, j: LABELS[cue == "man"])
    assert cue_tells(telling[:3]) is None, "too few"
    assert cue_tells(pairs(lambda i, cue, j: "first")) is None, "one label"
    assert cue_tells(pairs(lambda i, cue, j: "")) is None, "no label"
    without = tuple(replace(pair, cue=None) for pair in telling)
    assert cue_tells(PairSet("made", LABELS, without)) is None, "no cue"
    assert cue_tells(PairSet("made", LABELS, ())) is None
    own = [replace(pair, words=(f"a{i}", f"b{i}"), label=LABELS[i % 2]) for i, pair in enumerate(telling)]
    assert cue_tells(PairSet("made", LABELS, tuple(own))) is None, "each pair has words of its own"


def test_one_prefix_that_expects_both_labels() -> None:
    both = pairs(lambda i, cue, j: LABELS[j], [("cat", "dog"), ("cat", "dog")])
    assert contradicted(both) == len(PREFIXES)
    assert contradicted(pairs(lambda i, cue, j: LABELS[j], [("cat", "dog"), ("a", "b")])) == 0
