"""Words of prefixes that a word-level model does not know, and what a user can do about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache

from pivotal.errors import PivotalError
from pivotal.models.base import LanguageModel
from pivotal.problem.asking import Asking
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.units import Steps

_TRIED = 200
"""The number of pairs that are tried to find a cure."""


def with_unknown(model: LanguageModel, pairs: PairSet) -> PairSet:
    """The pairs with the words of prefixes that the model does not know replaced by its word for unknown words.

    A pair whose cue is not known stays as it is, and is later left out: it would ask about a word that the model cannot
    tell from others.
    """
    unk = model.unknown_word
    if unk is None:
        return pairs
    knows, changed, read = cache(model.knows), 0, []
    unknown: Counter[str] = Counter()
    for pair in pairs:
        words = pair.prefix.split(" ")
        strange = [word for word in words if not knows(word)]
        if strange and (pair.cue is None or knows(pair.cue_word)):
            changed += 1
            unknown.update(strange)
            first, second = (
                _known(text.split(" "), knows, unk) if text else "" for text in pair.counterfactuals
            )
            pair = replace(pair, prefix=_known(words, knows, unk), counterfactuals=(first, second))
        read.append(pair)
    if not changed:
        return pairs
    listed = ", ".join(f"{word} ({count:,})" for word, count in unknown.most_common(5))
    more = f" and {len(unknown) - 5:,} more" if len(unknown) > 5 else ""
    note = f"Read unknown words as {unk} in {changed:,} of {len(pairs):,} pairs: {listed}{more}."
    return replace(pairs, pairs=tuple(read), notes=(*pairs.notes, note))


def _known(words: list[str], knows: Callable[[str], bool], unk: str) -> str:
    return " ".join(word if knows(word) else unk for word in words)


def cure_of(model: LanguageModel, pairs: PairSet, steps: Steps) -> str:
    """What the user can do if none of the pairs can be asked."""
    some = pairs[:_TRIED]
    cures = []
    if _can_ask(model, some.lower(), steps):
        cures.append("In lower case the model knows the words: use --lower.")
    read = with_unknown(model, some)
    if read is not some and _can_ask(model, read, steps):
        cures.append(f"--unknown unk reads the unknown words of prefixes as {model.unknown_word}.")
    if steps == "single" and _can_ask(model, some, "every"):
        cures.append("The pairs have no cue: use --steps every, or give each pair a cue.")
    return " ".join(cures) or (
        "Use words that the model knows in texts that it has room for, or another model. `pivotal words` shows what it "
        "knows."
    )


def _can_ask(model: LanguageModel, pairs: PairSet, steps: Steps) -> bool:
    asking = Asking(model, steps)

    def asked(pair: MinimalPair) -> bool:
        try:
            asking.ask(pair)
        except PivotalError:
            return False
        return True

    return any(map(asked, pairs))
