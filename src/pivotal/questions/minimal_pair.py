"""A minimal pair: a prefix and two words that may follow it. A label may also name a set of words: `is|was|has`.

A pair may also ask no words. Then it asks what the model says next: after the prefix, and after its counterfactual.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from pivotal.errors import PivotalError, did_you_mean

SEPARATOR = "|"


@dataclass(frozen=True, slots=True)
class MinimalPair:
    """A prefix and two words that may follow it, or none. White space is normalised to single spaces."""

    prefix: str
    cue: int | None
    """The index in `prefix.split()` of the word to edit at, from 0. None if there is no such word: the pair then
    needs interventions at every step."""
    words: tuple[str, str]
    """The two next words, in the order of the set's labels. A set of words is written `is|was|has`: any may follow.
    Two empty texts: no words are asked."""
    label: str = ""
    """The label of the expected word, or empty if neither word is expected."""
    group: str = ""
    """The construction or template of the pair."""
    lexemes: tuple[tuple[str, str], ...] = ()
    """(slot, lemma), such as ("subject", "athlete"); sorted by slot."""
    counterfactuals: tuple[str, str] = ("", "")
    """For each label, the prefix with the form of the cue that calls for that label; empty if there is none. Each has
    as many words as the prefix, unless no words are asked. The fingerprint of a set ignores them."""

    def __post_init__(self) -> None:
        lexemes = [tuple(clean_text(text, "lexemes") for text in lexeme) for lexeme in self.lexemes]
        cleaned = {
            "words": tuple(map(_entry, self.words)),
            "lexemes": tuple(sorted(lexemes)),
            "counterfactuals": tuple(clean_text(text, "counterfactual") for text in self.counterfactuals),
            **{name: clean_text(getattr(self, name), name) for name in ("prefix", "label", "group")},
        }
        for name, value in cleaned.items():
            object.__setattr__(self, name, value)
        _check_pair(self)

    def lower(self) -> MinimalPair:
        """The same pair in lower case."""
        first, second = (entry.lower() for entry in self.words)
        return replace(
            self,
            prefix=self.prefix.lower(),
            words=(first, second),
            counterfactuals=(self.counterfactuals[0].lower(), self.counterfactuals[1].lower()),
        )

    @property
    def asks_words(self) -> bool:
        """Whether the pair asks which of two words follows."""
        return any(self.words)

    @property
    def word_sets(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The words of each label. Most labels have one word."""
        first, second = self.words
        return members(first), members(second)

    @property
    def cue_word(self) -> str:
        """The word of the prefix that decides which of the two words is expected; empty without a cue."""
        return "" if self.cue is None else self.prefix.split(" ")[self.cue]


def find_cue(prefix: str, cue: int | str | None) -> int | None:
    """The index of the cue. A cue that is a word must occur in the prefix exactly once."""
    if not isinstance(cue, str):
        return cue
    words, cue = prefix.split(), cue.strip()
    places = [index for index, word in enumerate(words) if word == cue]
    if not places:
        hint = did_you_mean(cue, set(words))
        raise PivotalError(f"The cue '{cue}' is not a word of the prefix '{' '.join(words)}'.{hint}", "cue")
    if len(places) > 1:
        said = f"The cue '{cue}' occurs {len(places)} times in '{' '.join(words)}'. Give its index instead: "
        raise PivotalError(f"{said}{' or '.join(map(str, places))}.", "cue")
    return places[0]


def clean_text(text: str, field: str) -> str:
    """Normalise white space to single spaces. Raise PivotalError for control characters and lone surrogates."""
    if not isinstance(text, str):
        raise PivotalError(f"Must be text, not {text!r}.", field)
    text = " ".join(text.split())
    bad = "" if text.isprintable() else next((c for c in text if unicodedata.category(c) in ("Cc", "Cs")), "")
    if bad:
        raise PivotalError(f"Text cannot hold the character U+{ord(bad):04X}. Remove it.", field)
    return text


def members(entry: str) -> tuple[str, ...]:
    """The words of an entry such as `is|was|has`. An entry such as `|` or `a|`, with nothing beside a separator, is one
    word."""
    words = tuple(entry.split(SEPARATOR))
    return words if all(words) else (entry,)


def joined(words: Sequence[str]) -> str:
    """The entry of some words, so that `members` returns them."""
    if len(words) > 1:
        for word in words:
            if SEPARATOR in word:
                raise PivotalError(f"A word of a set cannot hold '{SEPARATOR}', but {word!r} does.", "words")
    return SEPARATOR.join(words)


def shown(entry: str, most: int = 3) -> str:
    """The words of an entry for a table or a sentence: `is/was/…`."""
    words = members(entry)
    return "/".join(words if len(words) <= most else (*words[: most - 1], "…"))


@lru_cache(maxsize=4096)
def _check_words(words: tuple[str, ...]) -> None:
    """Raise PivotalError unless there are two entries without a word in common."""
    if len(words) != 2 or words[0] == words[1]:
        raise PivotalError(f"A pair has two different words, not {' and '.join(words)}.", field="words")
    every = [word for entry in words for word in members(entry)]
    for word in every:
        if not word or " " in word:
            raise PivotalError(f"Each label needs a word without spaces, but one is '{word}'.", field="words")
    if len(set(every)) < len(every):
        twice = next(word for word in every if every.count(word) > 1)
        raise PivotalError(f"'{twice}' occurs twice in {' and '.join(words)}. List each word once.", "words")


def _entry(words: str | Sequence[str]) -> str:
    """The words of a label, which may be given as a list, as one text."""
    if isinstance(words, str):
        return clean_text(words, "words")
    if not isinstance(words, Sequence) or not words or not all(isinstance(word, str) for word in words):
        raise PivotalError(f"The words of a label are a word or a list of words, not {words!r}.", "words")
    return joined([clean_text(word, "words") for word in words])


def _check_pair(pair: MinimalPair) -> None:
    length = len(pair.prefix.split())
    if not length:
        raise PivotalError("The prefix is empty. Give at least one word.", "prefix")
    if pair.cue is not None and (
        isinstance(pair.cue, bool) or not isinstance(pair.cue, int) or not 0 <= pair.cue < length
    ):
        said = f"The cue is an index from 0 to {length - 1} into '{pair.prefix}', not {pair.cue!r}."
        raise PivotalError(said, "cue")
    if pair.asks_words:
        _check_words(pair.words)
    slots = [slot for slot, _ in pair.lexemes]
    if len(set(slots)) < len(slots) or not all(slot and lemma for slot, lemma in pair.lexemes):
        raise PivotalError(f"Lexemes are different slots with lemmas, not {dict(pair.lexemes)}.", "lexemes")
    if len(pair.counterfactuals) != 2:
        said = f"A pair has a counterfactual prefix for each label, not {pair.counterfactuals!r}."
        raise PivotalError(said, "counterfactual")
    for text in pair.counterfactuals:
        if pair.asks_words and text and len(text.split()) != length:
            raise PivotalError(
                f"A counterfactual prefix has as many words as the prefix, {length}, but '{text}' has another number.",
                "counterfactual",
            )
