"""Ordinary text for a model: the sentences of a file, and their tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from pivotal.errors import PivotalError
from pivotal.files import asset, read_text
from pivotal.models.base import LanguageModel

BUNDLED = "ordinary.txt"
_LONGEST = 200
"""The most tokens of a sentence that are read."""
_PUNCTUATION = re.compile(r"\s*([.,;:?!])(?=\s|$)")


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


def mostly_unknown(model: LanguageModel, texts: Sequence[Sequence[int]]) -> bool:
    """Whether at least half of the tokens of some texts stand for words that the model does not know, or there are
    none."""
    unk = () if model.vocabulary.unknown_word is None else model.encode(model.vocabulary.unknown_word).ids
    return 2 * sum(token in unk for tokens in texts for token in tokens) >= sum(map(len, texts))
