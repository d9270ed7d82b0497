"""Sets of words. A label names one word, or several words of which any may follow: `is|was|has`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from pivotal.errors import PivotalError

SEPARATOR = "|"


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
                raise PivotalError(
                    f"'{SEPARATOR}' separates the words of a set, so a word of a set cannot hold it, as {word!r} does.",
                    field="words",
                )
    return SEPARATOR.join(words)


def shown(entry: str, most: int = 3) -> str:
    """The words of an entry for a table or a sentence: `is/was/…`."""
    words = members(entry)
    return "/".join(words if len(words) <= most else (*words[: most - 1], "…"))


@lru_cache(maxsize=4096)
def check_words(words: tuple[str, ...]) -> None:
    """Raise PivotalError unless there are two entries without a word in common."""
    if len(words) != 2 or words[0] == words[1]:
        raise PivotalError(f"A pair has two different words, not {words!r}.", field="words")
    every = [word for entry in words for word in members(entry)]
    for word in every:
        if not word:
            raise PivotalError(f"Each label needs a word, but one is empty: {words!r}.", field="words")
        if " " in word:
            raise PivotalError(
                f"Each of the two words is one word without spaces, not '{word}'.", field="words"
            )
    if len(set(every)) < len(every):
        twice = next(word for word in every if every.count(word) > 1)
        raise PivotalError(
            f"A word belongs to one label and is listed once, but '{twice}' occurs twice in {words!r}.",
            field="words",
        )
