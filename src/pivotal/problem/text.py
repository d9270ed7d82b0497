"""Text as a model reads it: ordinary sentences, and words that a word-level model does not know."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from pivotal.errors import PivotalError
from pivotal.files import asset, read_text
from pivotal.models.base import LanguageModel
from pivotal.models.tree import PrefixTree
from pivotal.problem.asking import askable
from pivotal.questions.minimal_pair import members
from pivotal.questions.pairs import PairSet
from pivotal.units import Steps

BUNDLED = "ordinary.txt"
_LONGEST = 200
"""The most tokens of a sentence that are read."""
_PUNCTUATION = re.compile(r"\s*([.,;:?!])(?=\s|$)")
_TRIED = 200
"""The number of pairs that are tried to find a cure."""
_NEAR = 5
"""The most similar words of a word."""


def sentences_of(path: str | Path | None = None) -> list[str]:
    """The sentences of a text file, one per line. By default they are those of the bundled text."""
    lines = read_text(asset("text", BUNDLED) if path is None else Path(path)).splitlines()
    found = [line.strip() for line in lines if line.strip()]
    if not found:
        raise PivotalError(f"A text has at least one line, but {path} has none.")
    return found


def tokens_of(model: LanguageModel, line: str) -> tuple[int, ...]:
    """The tokens of a sentence. A word-level model reads punctuation as words and unknown words as its `<unk>`."""
    unk = model.vocabulary.unknown_word
    if unk is not None:
        words = _PUNCTUATION.sub(r" \1", line).split()
        line = " ".join(word if model.vocabulary.knows(word) else unk for word in words)
    most = _LONGEST if model.longest is None else min(_LONGEST, model.longest)
    try:
        return tuple(model.encode(line).ids[:most])
    except PivotalError:
        return ()


class OrdinaryText:
    """Sentences as a model reads them, by default those of the bundled text. There are none if the model does not know
    most of their words: then its predictions say nothing about the text."""

    def __init__(
        self, model: LanguageModel, sentences: Sequence[str] | None = None, name: str = "the bundled text"
    ) -> None:
        self.model, self.name = model, name
        given = sentences_of() if sentences is None else sentences
        ids = [tokens for line in given if (tokens := tokens_of(model, line))]
        self.ids: list[tuple[int, ...]] = [] if mostly_unknown(model, ids) else ids
        """The tokens of each sentence."""
        self._read: dict[Steps, tuple[PrefixTree, Any]] = {}

    def read(self, steps: Steps) -> tuple[PrefixTree, Any]:
        """The sentences as a tree, and what the model computes once for it. A single step is the middle token of each
        sentence, because ordinary text has no cue."""
        if steps not in self._read:
            middle = [len(tokens) // 2 for tokens in self.ids]
            tree = PrefixTree.build(self.ids, middle, [0] * len(self.ids), steps)
            self._read[steps] = tree, self.model.prepare(tree)
        return self._read[steps]


def mostly_unknown(model: LanguageModel, texts: Sequence[Sequence[int]]) -> bool:
    """Whether at least half of the tokens of some texts stand for words that the model does not know, or there are
    none."""
    unk = () if model.vocabulary.unknown_word is None else model.encode(model.vocabulary.unknown_word).ids
    return 2 * sum(token in unk for tokens in texts for token in tokens) >= sum(map(len, texts))


def with_unknown(model: LanguageModel, pairs: PairSet) -> PairSet:
    """The pairs with the words of prefixes that the model does not know replaced by its word for unknown words.

    No cue is replaced, because the model could not tell it from others. A pair whose cue is not known stays as it is
    and is later left out, as is a counterfactual prefix whose cue is not known. The notes of the set say how many pairs
    were changed and how many have such a cue.
    """
    unk = model.vocabulary.unknown_word
    if unk is None:
        return pairs
    knows, changed, cues, read = cache(model.vocabulary.knows), 0, 0, []
    unknown: Counter[str] = Counter()
    for pair in pairs:
        strange = [word for word in pair.prefix.split(" ") if not knows(word)]
        if strange and pair.cue is not None and not knows(pair.cue_word):
            cues += 1
        elif strange:
            changed += 1
            unknown.update(strange)
            prefix, first, second = (
                _known(text, knows, unk, pair.cue) for text in (pair.prefix, *pair.counterfactuals)
            )
            pair = replace(pair, prefix=prefix, counterfactuals=(first, second))
        read.append(pair)
    notes = []
    if changed:
        listed = ", ".join(f"{word} ({count:,})" for word, count in unknown.most_common(5))
        more = f" and {len(unknown) - 5:,} more" if len(unknown) > 5 else ""
        notes.append(f"Read unknown words as {unk} in {changed:,} of {len(pairs):,} pairs: {listed}{more}.")
    if cues:
        notes.append(
            f"The cue is unknown in {cues:,} of {len(pairs):,} pairs, so the model cannot score them."
        )
    return replace(pairs, pairs=tuple(read), notes=(*pairs.notes, *notes)) if notes else pairs


def _known(text: str, knows: Callable[[str], bool], unk: str, cue: int | None) -> str:
    return " ".join(word if at == cue or knows(word) else unk for at, word in enumerate(text.split()))


def cure_of(model: LanguageModel, pairs: PairSet, steps: Steps) -> str:
    """What the user can do if the model cannot score any of the pairs."""
    some = pairs[:_TRIED]
    cures = _spellings(model, some)
    if _count(model, some.lower(), steps):
        cures.append("In lower case the model knows the words: use --lower.")
    if _count(model, with_unknown(model, some), steps):
        cures.append(f"--unknown unk reads the unknown words of prefixes as {model.vocabulary.unknown_word}.")
    if steps == "single" and _count(model, some, "every"):
        cures.append("The pairs have no cue: use --steps every, or give each pair a cue.")
    return " ".join(cures) or (
        "Use words that the model knows (`pivotal check MODEL --words WORD,WORD`), or another model."
    )


def options_for_more(model: LanguageModel, pairs: PairSet, steps: Steps, asked: int) -> tuple[str, ...]:
    """The options with which more pairs than `asked` can be scored, in sentences."""
    counts = {
        "--unknown unk": _count(model, with_unknown(model, pairs), steps),
        "--lower": _count(model, pairs.lower(), steps),
    }
    return tuple(
        f"With {option}, {count:,} of {len(pairs):,} pairs can be scored."
        for option, count in counts.items()
        if count > asked
    )


def _count(model: LanguageModel, pairs: PairSet, steps: Steps) -> int:
    """The number of pairs that the model can be asked."""
    return len(askable(model, pairs, steps)[1])


def _spellings(model: LanguageModel, pairs: PairSet) -> list[str]:
    """For the words asked about that the model does not know, the most similar word that it knows."""
    asked = dict.fromkeys(word for pair in pairs for words in pair.words for word in members(words) if word)
    unknown = [word for word in asked if not model.vocabulary.knows(word)][:_NEAR]
    near = {word: near_words(word, model.vocabulary.whole_words())[:1] for word in unknown}
    return [f"Did you mean “{found[0]}” instead of “{word}”?" for word, found in near.items() if found]


def near_words(word: str, known: Sequence[str]) -> list[str]:
    """The known words that look most like a word: other capitals first, then similar spelling."""
    lower = word.lower()
    same = [other for other in known if other.lower() == lower and other != word]
    # Only words of about the same length that begin alike are compared: comparing with all takes seconds.
    like = [
        other
        for other in known
        if abs(len(other) - len(word)) <= 3 and other[:1].lower() == lower[:1] and other.lower() != lower
    ]
    return [*same, *difflib.get_close_matches(word, like, n=_NEAR, cutoff=0.7)][:_NEAR]
