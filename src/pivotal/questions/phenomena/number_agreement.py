"""Subject-verb agreement in number: a small grammar of seven constructions after Lakretz et al. (2019)."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from pivotal.questions.pairs import MinimalPair, PairSet
from pivotal.questions.phenomena.base import Phenomenon

# Singular and plural.
SUBJECTS = (
    ("athlete", "athletes"), ("aunt", "aunts"), ("boy", "boys"), ("carpenter", "carpenters"),
    ("doctor", "doctors"), ("farmer", "farmers"), ("father", "fathers"), ("friend", "friends"),
    ("girl", "girls"), ("guy", "guys"), ("kid", "kids"), ("lawyer", "lawyers"),
    ("man", "men"), ("mother", "mothers"), ("poet", "poets"), ("singer", "singers"),
    ("teacher", "teachers"), ("uncle", "uncles"), ("victim", "victims"), ("woman", "women"),
)  # fmt: skip
VERBS = (
    ("admires", "admire"), ("approves", "approve"), ("avoids", "avoid"), ("confuses", "confuse"),
    ("criticizes", "criticize"), ("discourages", "discourage"), ("encourages", "encourage"),
    ("engages", "engage"), ("greets", "greet"), ("inspires", "inspire"), ("knows", "know"),
    ("observes", "observe"), ("remembers", "remember"), ("stimulates", "stimulate"),
    ("understands", "understand"),
)  # fmt: skip
PLACES = (
    ("bike", "bikes"), ("car", "cars"), ("cat", "cats"), ("chair", "chairs"), ("desk", "desks"),
    ("dog", "dogs"), ("table", "tables"), ("tree", "trees"), ("truck", "trucks"), ("window", "windows"),
)  # fmt: skip
NAMES = ("Barbara", "Bill", "Bob", "Jim", "John", "Linda", "Mary", "Mike", "Pat", "Sue")
# Only these fit every place: "the boy above the desks" would be odd.
PLACE_PREPOSITIONS = ("near", "behind", "beside")
NAME_PREPOSITIONS = (*PLACE_PREPOSITIONS, "above", "under")
SENTENCE_ADVERBS = ("probably", "certainly", "definitely")
OPENING_ADVERBS = ("now", "indeed", "quite")
FIRST_MANNER, SECOND_MANNER = ("gently", "openly"), ("carefully", "deliberately")

LABELS = ("singular", "plural")


@dataclass(frozen=True)
class Construction:
    """The words between subject and verb. A tuple is a choice of words; PLACES also have a number."""

    name: str
    size: int
    middle: tuple[str | tuple[str, ...] | tuple[tuple[str, str], ...], ...] = ()


CONSTRUCTIONS = (
    Construction("simple", 600),
    Construction("adv", 1800, (SENTENCE_ADVERBS,)),
    Construction("adv_adv", 1800, (OPENING_ADVERBS, SENTENCE_ADVERBS)),
    Construction("adv_conjunction", 1200, (FIRST_MANNER, "and", SECOND_MANNER)),
    Construction("namepp", 1800, (NAME_PREPOSITIONS, NAMES)),
    Construction("nounpp", 2400, (PLACE_PREPOSITIONS, "the", PLACES)),
    Construction("nounpp_adv", 2400, (PLACE_PREPOSITIONS, "the", PLACES, SENTENCE_ADVERBS)),
)

_PLACE_LEMMA = {form: forms[0] for forms in PLACES for form in forms}


@dataclass(frozen=True)
class NumberAgreement(Phenomenon):
    """12,000 distinct pairs. In every construction, each subject form occurs equally often with each verb."""

    name: ClassVar[str] = "number-agreement"
    labels: ClassVar[tuple[str, str]] = LABELS
    summary: ClassVar[str] = "subject-verb agreement: 'The boys near the car' greet, not greets; 12,000 pairs"

    seed: int = 0
    """Seed of the choice among the possible sentences."""

    def pairs(self) -> PairSet:
        rng = random.Random(self.seed)
        made = itertools.chain.from_iterable(_make(construction, rng) for construction in CONSTRUCTIONS)
        return PairSet(self.name, self.labels, tuple(made))


def _make(construction: Construction, rng: random.Random) -> Iterator[MinimalPair]:
    place_numbers = (0, 1) if PLACES in construction.middle else (0,)
    cells = list(itertools.product(SUBJECTS, (0, 1)))
    per_cell = construction.size // len(cells) // len(place_numbers)
    verbs = list(VERBS)
    for place_number in place_numbers:
        deck = _middles(construction, place_number)
        lap = math.lcm(len(deck), len(verbs))
        for cell, (subject, number) in enumerate(cells):
            # Each cell continues in the deck where the last one stopped, so all middles are equally frequent. The
            # deck is shuffled only at its end. Otherwise a cell could get one middle twice and another never.
            first = cell * per_cell
            if first % len(deck) == 0:
                rng.shuffle(deck)
            rng.shuffle(verbs)
            for i in range(per_cell):
                # Diagonals of middles x verbs: no pair twice, every middle and every verb equally often.
                middle, verb = deck[(first + i) % len(deck)], verbs[(i + i // lap) % len(verbs)]
                singular, plural = (" ".join(("The", form, *middle)) for form in subject)
                lexemes = (("subject", subject[0]), ("verb", verb[1]), *middle_lexemes(middle))
                prefix = plural if number else singular
                name, both = construction.name, (singular, plural)
                yield MinimalPair(prefix, 1, verb, LABELS[number], name, lexemes, both)


def _middles(construction: Construction, place_number: int) -> list[tuple[str, ...]]:
    """All possible middles, with the place nouns in one number."""
    choices: list[tuple[str, ...]] = []
    for part in construction.middle:
        if isinstance(part, str):
            choices.append((part,))
        else:
            choices.append(tuple(word if isinstance(word, str) else word[place_number] for word in part))
    return list(itertools.product(*choices))


def middle_lexemes(words: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The nouns among the words between subject and verb, as (slot, lemma)."""
    found = [("attractor", _PLACE_LEMMA[word]) for word in words if word in _PLACE_LEMMA]
    return (*found, *(("name", word) for word in words if word in NAMES))
