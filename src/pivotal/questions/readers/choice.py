"""What most files in other formats hold: a prefix, a good and a bad next word, and sometimes another prefix."""

from __future__ import annotations

from dataclasses import dataclass

from pivotal.errors import PivotalError
from pivotal.questions.pairs_file import SKIP

_MARKS = ".,;:?!"


@dataclass(frozen=True)
class Choice:
    """A row of a file in another format."""

    where: str
    """File and line, for messages."""
    prefix: str
    good: str
    """The word that should follow, or `a|b` for several."""
    bad: str
    other: str = ""
    """The prefix after which the bad word should follow; empty if the file has none."""
    cue: int | str | None = None
    group: str = ""
    label: str = ""
    """The label of the good word, if the file states it."""


def between_sentences(good: str, bad: str) -> tuple[str, str, str]:
    """The prefix that two sentences share, and the two words that follow it. They may differ in one word only."""
    first, second = good.split(), bad.split()
    place = _first_difference(first, second)
    if place is None:
        raise PivotalError(f"The two sentences must differ, but both are “{good}”. Correct one.{SKIP}")
    if place == 0:
        raise PivotalError(
            f"The two sentences must begin alike, so that a prefix can be read, but “{good}” and “{bad}” differ in "
            f"their first word. Put the same word before both.{SKIP}"
        )
    if min(len(first), len(second)) == place:
        shorter, longer = sorted((good, bad), key=len)
        raise PivotalError(
            f"Each sentence needs a word of its own, but “{shorter}” is the beginning of “{longer}”. Complete it.{SKIP}"
        )
    if first[place + 1 :] != second[place + 1 :]:
        raise PivotalError(
            f"The two sentences may differ in one word only, but after “{' '.join(first[:place])}” they go on with "
            f"“{' '.join(first[place:])}” and “{' '.join(second[place:])}”. End both after the word that differs, or "
            f"make the rest alike.{SKIP}"
        )
    words = first[place], second[place]
    while words[0][-1:] == words[1][-1:] and words[0][-1:] in _MARKS and min(map(len, words)) > 1:
        words = words[0][:-1], words[1][:-1]
    return " ".join(first[:place]), *words


def between_continuations(prefix: str, good: str, bad: str) -> tuple[str, str, str]:
    """The prefix and the first words that differ, where continuations may have several words: what they share belongs
    to the prefix, and what follows the difference is left out."""
    first, second = good.split(), bad.split()
    place = _first_difference(first, second)
    if place is None or min(len(first), len(second)) == place:
        raise PivotalError(f"The two continuations must differ in a word, but they are “{good}” and “{bad}”.")
    return " ".join([*prefix.split(), *first[:place]]), first[place], second[place]


def _first_difference(first: list[str], second: list[str]) -> int | None:
    """The index of the first word in which two texts differ; the length of the shorter one if it is the beginning of
    the other; None if they are equal."""
    for place, (a, b) in enumerate(zip(first, second, strict=False)):
        if a != b:
            return place
    return None if len(first) == len(second) else min(len(first), len(second))
