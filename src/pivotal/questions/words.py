"""The words of word-level models: their vocabulary, and written English as they read it ("can't" is "ca n't")."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pivotal.files import read_text

UNK, EOS = "<unk>", "<eos>"
"""The two words that all have."""
CLITICS = ("n't", "'s", "'re", "'ve", "'ll", "'d", "'m", "'")
"""The ends of words that treebanks and corpora write as words of their own."""
_MARKS = frozenset(".,;:?!…()[]{}\"“”‘’'«»—–")


def read_words(path: Path) -> list[str]:
    """Read a vocabulary: one word per line, in the order of the ids."""
    lines = [line.removesuffix("\r") for line in read_text(path).split("\n")]
    return lines[:-1] if lines[-1] == "" else lines


def divided(word: str, known: Callable[[str], bool]) -> tuple[str, ...] | None:
    """The known words that a written word consists of; None if some part is not known.

    Marks at the ends of the word and contractions are divided. A word that is known is not.
    """
    word = word.replace("’", "'")
    if known(word):
        return (word,)
    for clitic in CLITICS:
        if word.endswith(clitic) and known(clitic) and known(word[: -len(clitic)]):
            return word[: -len(clitic)], clitic
    for mark, rest, first in ((word[-1:], word[:-1], False), (word[:1], word[1:], True)):
        if rest and mark in _MARKS and known(mark) and (parts := divided(rest, known)) is not None:
            return (mark, *parts) if first else (*parts, mark)
    return None
