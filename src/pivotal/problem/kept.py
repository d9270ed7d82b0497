"""What an intervention must leave alone: other questions, whose preferences must stay, and text.

Their sentences stand in the prefix tree of the training pairs, once in each direction, so that every masked run edits
them too. A search bounds the change of the preferences of each question. If there is text, the KL of the problem is the
KL after its words.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from pivotal.errors import PivotalError
from pivotal.files import suffix_of
from pivotal.models.base import LanguageModel
from pivotal.problem.asking import Asking, Tokens
from pivotal.problem.ordinary_text import sentences_of, tokens_of
from pivotal.questions.pairs import PairSet
from pivotal.questions.phenomena import load_phenomenon
from pivotal.units import Steps

TEXT = "text"
"""The name of the bundled text."""
_MOST = 256
"""The most sentences of one question or text that a search reads."""


def is_text(name: str) -> bool:
    """Whether --keep means a text by this name, not a question."""
    return name == TEXT or suffix_of(Path(name)) == ".txt"


@dataclass(frozen=True)
class Stay:
    """One question or text that must stay: sentences for the search, and others to measure the effect on."""

    name: str
    pairs: PairSet | None = None
    lines: tuple[str, ...] = ()
    held_out: PairSet | None = None
    held_out_lines: tuple[str, ...] = ()

    @staticmethod
    def of(name: str, read: Callable[[str], PairSet] = load_phenomenon) -> Stay:
        """Read a question, with `read`, or a text. Half of it is held out from the search."""
        if is_text(name):
            lines = sentences_of(None if name == TEXT else name)
            return Stay(name, lines=tuple(lines[::2]), held_out_lines=tuple(lines[1::2]))
        pairs = read(name)
        prefixes = sorted({pair.prefix for pair in pairs})
        random.Random(0).shuffle(prefixes)
        half = set(prefixes[: len(prefixes) // 2])
        inside = tuple(pair for pair in pairs if pair.prefix in half)
        outside = tuple(pair for pair in pairs if pair.prefix not in half)
        return Stay(name, pairs=replace(pairs, pairs=inside), held_out=replace(pairs, pairs=outside))

    def fingerprint(self) -> str:
        """16 hex digits that depend on the sentences, but not on the name."""
        sets = [pairs.fingerprint() for pairs in (self.pairs, self.held_out) if pairs is not None]
        content = json.dumps([self.lines, self.held_out_lines, sets])
        return hashlib.sha256(content.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class KeptSentence:
    """A line of text or the prefix of a pair."""

    name: str
    """The question or text that it belongs to."""
    places: np.ndarray
    """The indices of its sequences: all prefixes of a line of text, or the prefix of a pair."""
    words: tuple[Tokens, Tokens] | None = None
    """The words of the pair; None for text."""
    expected: int | None = None
    """The index of the expected word; None if the pair states none."""


@dataclass(frozen=True)
class KeptSentences:
    """Sentences as tokens, each with the position at which a single-step edit is made."""

    sequences: tuple[Tokens, ...]
    cues: tuple[int, ...]
    sentences: tuple[KeptSentence, ...]

    @staticmethod
    def of(model: LanguageModel, stays: Sequence[Stay], steps: Steps) -> KeptSentences:
        """The sentences of all questions and texts that the model can read."""
        sequences: list[Tokens] = []
        cues: list[int] = []
        sentences: list[KeptSentence] = []
        names = _names(stays)
        for stay, name in zip(stays, names, strict=True):
            before = len(sequences)
            for tokens, cue, ends, words, expected in _read(model, stay, steps):
                places = np.arange(len(sequences), len(sequences) + len(ends))
                sentences.append(KeptSentence(name, places, words, expected))
                sequences += [tokens[:end] for end in ends]
                cues += [cue] * len(ends)
            if len(sequences) == before:
                raise PivotalError(
                    f"{model.name} must be able to read what it keeps, but it can read no sentence of {stay.name}. "
                    "Leave it out of --keep.",
                    "keep",
                )
        return KeptSentences(tuple(sequences), tuple(cues), tuple(sentences))


def _names(stays: Sequence[Stay]) -> list[str]:
    """The names of the pair sets. Two sets of the same name go by their names in --keep."""
    names = [stay.name if stay.pairs is None else stay.pairs.name for stay in stays]
    return [stay.name if names.count(name) > 1 else name for stay, name in zip(stays, names, strict=True)]


_Read: TypeAlias = tuple[Tokens, int, list[int], tuple[Tokens, Tokens] | None, int | None]


def _read(model: LanguageModel, stay: Stay, steps: Steps) -> list[_Read]:
    """The tokens of each sentence, the position of its edit, the lengths of the prefixes after which predictions must
    stay, the words of a pair, and which of them is expected. A text has no cue, so it is edited at the middle token."""
    found: list[_Read] = []
    for line in stay.lines[:_MOST]:
        if len(tokens := tokens_of(model, line)) > 1:
            middle = len(tokens) // 2
            first = middle if steps == "single" else 0
            found.append((tokens, middle, list(range(first + 1, len(tokens) + 1)), None, None))
    if stay.pairs is not None:
        asking = Asking(model, "every")
        seen: set[str] = set()
        for pair in stay.pairs.at_most(4 * _MOST):
            if pair.prefix in seen or len(seen) == _MOST:
                continue
            try:
                one = asking.ask(pair)
            except PivotalError:  # the model does not know a word of it
                continue
            seen.add(pair.prefix)
            cue = len(one.ids) // 2 if one.cue is None else one.cue
            expected = stay.pairs.labels.index(pair.label) if pair.label else None
            found.append((tuple(one.ids), cue, [len(one.ids)], one.sides, expected))
    return found
