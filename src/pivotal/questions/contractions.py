"""Written English as word-level models read it: "can't" is "ca n't", "car," is "car ,"."""

from __future__ import annotations

from collections.abc import Callable

CLITICS = ("n't", "'s", "'re", "'ve", "'ll", "'d", "'m", "'")
"""The ends of words that treebanks and corpora write as words of their own."""
_MARKS = frozenset(".,;:?!…()[]{}\"“”‘’'«»—–")


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
