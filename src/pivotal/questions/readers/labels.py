"""Find the two labels of the words in files that name only a good and a bad word.

A label is a property that tells the two words of each row apart, and that the good word has in some rows and the bad
word in others: number, gender, or simply which of two words it is. If the good words are always of one kind, the rows
have one direction: their labels are `good` and `bad`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pivotal.questions.minimal_pair import members
from pivotal.questions.readers import english
from pivotal.questions.readers.choice import Choice

ONE_WAY = ("good", "bad")
NOUNS, VERBS, PRONOUNS = "the number of nouns", "the number of verbs", "the number of pronouns"
GENDER, STATED = "gender", "stated in the file"
_NUMBERS = ("singular", "plural")
_ENOUGH = 0.5
"""A property is used if it tells the words of this share of the rows apart, and no other tells more."""
_AGREE = 0.9
"""The share of nouns that must agree with their determiners."""


@dataclass(frozen=True)
class Labelling:
    """Which of the two labels the good word of each row has."""

    labels: tuple[str, str]
    good: tuple[int | None, ...]
    """For each row the index of the label of the good word; None if the labels do not tell its words apart."""
    kind: str
    """What the labels are, in words."""

    @property
    def one_way(self) -> bool:
        return self.labels == ONE_WAY

    @property
    def apart(self) -> int:
        """The number of rows whose words the labels tell apart."""
        return sum(label is not None for label in self.good)

    @property
    def both_ways(self) -> bool:
        return {0, 1} <= set(self.good)

    def told_apart(self, choices: Sequence[Choice]) -> tuple[list[Choice], Labelling]:
        """The rows whose words the labels tell apart."""
        kept = [row for row, label in enumerate(self.good) if label is not None]
        return [choices[row] for row in kept], replace(self, good=tuple(self.good[row] for row in kept))


def labelled(choices: Sequence[Choice]) -> Labelling:
    """The labels that tell the words of most rows apart."""
    found = [made for made in (rule(choices) for rule in _RULES) if made is not None and made.both_ways]
    best = max(found, key=lambda made: made.apart, default=None)
    if best is not None and best.apart >= _ENOUGH * len(choices):
        return best
    return Labelling(ONE_WAY, (0,) * len(choices), "the good and the bad words")


Rule = Callable[[Sequence[Choice]], Labelling | None]


def _nouns(choices: Sequence[Choice]) -> Labelling | None:
    """The number of nouns, stated by the determiner before them. It is right for irregular nouns as well."""
    stated = [_stated(choice) for choice in choices]
    told = [english.noun_number(choice.good, choice.bad) for choice in choices]
    both = [a == b for a, b in zip(stated, told, strict=True) if a is not None and b is not None]
    known = sum(number is not None for number in stated)
    # The forms of regular nouns and verbs look alike. A noun agrees with the determiner, a verb would not.
    if known < _ENOUGH * len(choices) or len(both) < _ENOUGH * known or sum(both) < _AGREE * len(both):
        return None
    good = tuple(b if a is None else a for a, b in zip(stated, told, strict=True))
    return Labelling(_NUMBERS, good, NOUNS)


def _stated(choice: Choice) -> int | None:
    """The number that a determiner at the end of the prefix states."""
    words = choice.prefix.split()
    place = english.last_determiner(words)
    return None if place is None else english.DETERMINERS[words[place].lower()]


def _verbs(choices: Sequence[Choice]) -> Labelling | None:
    if _nouns(choices) is not None:
        return None
    good = tuple(english.verb_number(choice.good, choice.bad) for choice in choices)
    return Labelling(_NUMBERS, good, VERBS)


def _pronouns(choices: Sequence[Choice]) -> Labelling | None:
    def number(choice: Choice) -> int | None:
        good, bad = english.pronoun_number(choice.good), english.pronoun_number(choice.bad)
        return good if None not in (good, bad) and good != bad else None

    return Labelling(_NUMBERS, tuple(map(number, choices)), PRONOUNS)


def _gender(choices: Sequence[Choice]) -> Labelling | None:
    return _classes(choices, ("masculine", "feminine"), english.MASCULINE, english.FEMININE)


def _feminine(choices: Sequence[Choice]) -> Labelling | None:
    others = english.MASCULINE | english.NEUTER
    return _classes(choices, ("not feminine", "feminine"), others, english.FEMININE)


def _classes(
    choices: Sequence[Choice], labels: tuple[str, str], first: frozenset[str], second: frozenset[str]
) -> Labelling:
    def label(choice: Choice) -> int | None:
        good, bad = choice.good.lower(), choice.bad.lower()
        if good in first and bad in second:
            return 0
        return 1 if good in second and bad in first else None

    return Labelling(labels, tuple(map(label, choices)), GENDER)


def _words(choices: Sequence[Choice]) -> Labelling | None:
    """The words themselves, if every two rows are connected by words that they share: is/are, was/are, was/were."""
    edges: dict[str, set[str]] = {}
    for choice in choices:
        edges.setdefault(choice.good, set()).add(choice.bad)
        edges.setdefault(choice.bad, set()).add(choice.good)
    side = {min(edges): 0}
    waiting = list(side)
    while waiting:
        word = waiting.pop()
        for other in edges[word]:
            if other not in side:
                side[other] = 1 - side[word]
                waiting.append(other)
            elif side[other] == side[word]:
                return None  # a circle of three words has no two sides
    if len(side) < len(edges):
        return None
    good = tuple(side[choice.good] for choice in choices)
    often = [Counter(w for c in choices for w in (c.good, c.bad) if side[w] == s) for s in (0, 1)]
    first, second = (members(max(count, key=lambda w: (count[w], w)))[0] for count in often)
    return Labelling((first, second), good, "the words themselves")


_RULES: tuple[Rule, ...] = (_nouns, _verbs, _pronouns, _gender, _feminine, _words)
"""Of rules that tell as many rows apart, the first is used."""
