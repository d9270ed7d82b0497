"""Encoding and decoding with a tokenizer of `transformers`."""

from __future__ import annotations

import bisect
import hashlib
import re
import unicodedata
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from pivotal.errors import PivotalError, in_short
from pivotal.models.vocabulary import Encoding, Vocabulary

_SEPARATOR = "<|endoftext|>"
"""The token between the documents that GPT-2, Pythia, SmolLM2, Qwen and others were trained on."""
_BEFORE = "The"
"""The tokens of a word are determined after this prefix, because a word at the start of a text often has others."""


class Tokens(Vocabulary):
    """The vocabulary of a tokenizer of `transformers`."""

    def __init__(self, tokenizer: Any, vocabulary: int, priming: str | None = None) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise PivotalError(
                f"{type(tokenizer).__name__} cannot map tokens to characters. Convert it to a fast one, tokenizer.json."
            )
        self.tokenizer = tokenizer
        self.size = vocabulary
        self._unknown: int | None = tokenizer.unk_token_id
        self._anchor = self._ids(_BEFORE)
        self.priming = self._priming(priming)

    def _ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def _read(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """The tokens of a text and their characters."""
        try:
            made = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        except Exception as error:  # tokenizers raises nothing narrower
            said = in_short(error).replace(": ", ", ")  # a colon ends the reason
            raise PivotalError(f"the tokenizer cannot read it ({said}): {text}") from None
        return list(made["input_ids"]), list(made["offset_mapping"])

    def _priming(self, text: str | None) -> tuple[int, ...]:
        """The tokens of the priming. The default is what the tokenizer adds, or else the separator that documents began
        with in training. The BOS that a tokenizer names but does not add may open a turn of a dialogue instead."""
        if text is not None:
            try:
                return tuple(self._checked(self._ids(text), text))
            except PivotalError as error:
                raise PivotalError(
                    f"The priming text {text!r} is not in the model's words ({error}). Give another, or an empty one."
                ) from None
        if self.added:
            return self.added
        known = _SEPARATOR in self.tokenizer.all_special_tokens
        start = self.tokenizer.convert_tokens_to_ids(_SEPARATOR) if known else self.size
        return (start,) if start < self.size else ()

    @cached_property
    def added(self) -> tuple[int, ...]:
        """The tokens that the tokenizer puts before a text."""
        plain, whole = self._ids(_BEFORE), list(self.tokenizer(_BEFORE)["input_ids"])
        for start in range(len(whole) - len(plain) + 1):
            if plain and whole[start : start + len(plain)] == plain:
                return tuple(whole[:start])
        return ()

    def is_priming(self, text: str) -> bool:
        return self._priming(text) == self.priming

    def priming_text(self) -> str:
        """The priming as text."""
        return "".join(str(t) for t in self.tokenizer.convert_ids_to_tokens(list(self.priming)))

    def encode(self, text: str) -> Encoding:
        ids, places = self._read(text)
        ids = self._checked(ids, text)
        starts = [match.start() for match in re.finditer(r"\S+", text)]
        words = [_word_of(text, starts, a, b) for a, b in places]
        if sorted(set(words)) != list(range(len(starts))) or words != sorted(words):
            raise PivotalError(f"some word has no tokens of its own: {text}")
        return Encoding(tuple(ids), tuple(words))

    def tokens_of(self, word: str) -> tuple[int, ...]:
        """The tokens of a word after another word."""
        ids, _ = self._read(f"{_BEFORE} {word}")
        new = ids[len(self._anchor) :]
        if ids[: len(self._anchor)] != self._anchor or not new:
            raise PivotalError(f"no token of its own after a word: {word}")
        return tuple(self._checked(new, word))

    def word_ends(self) -> tuple[int, ...]:
        """The tokens that cannot continue a word: they begin with a space or with punctuation, or are special.

        A token that is a part of a letter may continue a word, so it is not one of them.
        """
        return self._ends

    @cached_property
    def _ends(self) -> tuple[int, ...]:
        special = set(self.tokenizer.all_special_ids)
        return tuple(i for i, text in enumerate(self._texts()) if i in special or _ends_a_word(text))

    def whole_words(self) -> list[str]:
        """The words that are a token of their own after another word."""
        return list(dict.fromkeys(text[1:] for text in self._texts() if re.fullmatch(r" \S+", text)))

    def _texts(self) -> list[str]:
        """The text of every token after a word, decoded at once."""
        every = range(min(len(self.tokenizer), self.size))
        texts = self.tokenizer.backend_tokenizer.decode_batch([[*self._anchor, i] for i in every])
        start = len(self.tokenizer.decode(self._anchor))
        return [text[start:] for text in texts]

    def word(self, token: int) -> str:
        """The text of a token, with its leading space if it has one."""
        if not self._anchor:
            return str(self.tokenizer.decode([token]))
        before = self.tokenizer.decode(self._anchor)
        return str(self.tokenizer.decode([*self._anchor, token]))[len(before) :]

    def continued(self, prompt: str, tokens: Sequence[int]) -> str:
        """Decode all tokens at once, because a letter outside ASCII may be several tokens."""
        ids = self._ids(prompt)
        before = self.tokenizer.decode(ids)
        return prompt + str(self.tokenizer.decode([*ids, *tokens]))[len(before) :]

    def unspeakable(self) -> list[int]:
        """The tokens without text: special tokens, and unused rows of the embedding."""
        used = range(len(self.tokenizer), self.size)
        return sorted({i for i in self.tokenizer.all_special_ids if i < self.size} | set(used))

    def join(self, words: Sequence[str]) -> str:
        return "".join(words)

    def _checked(self, ids: list[int], text: str) -> list[int]:
        if self._unknown is not None and self._unknown in ids and self.tokenizer.unk_token not in text:
            raise PivotalError(f"outside the vocabulary: {text}")
        if any(not 0 <= i < self.size for i in ids):
            raise PivotalError(f"outside the model's {self.size} embeddings: {text}")
        return ids


def digest_of_words(tokenizer: Any) -> str:
    """The SHA-256 of the vocabulary."""
    return hashlib.sha256("\n".join(words_of(tokenizer)).encode()).hexdigest()


def words_of(tokenizer: Any) -> list[str]:
    """The vocabulary in the order of the ids."""
    return [f"{i}:{word}" for i, word in sorted((i, word) for word, i in tokenizer.get_vocab().items())]


def _ends_a_word(text: str) -> bool:
    """Whether a word is complete before this text, which begins with neither a letter nor a digit."""
    return bool(text) and text[0] != "\ufffd" and unicodedata.category(text[0])[0] not in "LMN"


def _word_of(text: str, starts: Sequence[int], a: int, b: int) -> int:
    """The word of the token at [a, b). White space belongs to the word that follows it."""
    while a < len(text) - 1 and text[a].isspace():
        a += 1
    return max(bisect.bisect_right(starts, a) - 1, 0)
