"""Text to tokens and back, with a tokenizer of `transformers`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

from pivotal.errors import PivotalError
from pivotal.models.base import Encoding

_BEFORE = "The"
"""Words are asked about after a prefix, never at the beginning of a text: there they often are other tokens."""
_LOOKED_AT = 2000
"""Tokens that are enough to say how a tokenizer reads."""
_WORD = re.compile(r" [A-Za-z]{3,}")


class Tokens:
    """A sentence as a model reads it. What it reads before every sentence, BOS for example, is the *priming*."""

    def __init__(self, tokenizer: Any, vocabulary: int, priming: str | None = None) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise PivotalError(
                "A tokenizer must tell which characters its tokens stand for, but "
                f"{type(tokenizer).__name__} is a slow one, which cannot. Convert it to a tokenizer.json."
            )
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        self._anchor = self._ids(_BEFORE)
        self.priming = self._priming(priming)

    def _ids(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def _priming(self, text: str | None) -> tuple[int, ...]:
        """By default what the tokenizer itself puts before a text: BOS if the model was trained with it."""
        if text is not None:
            try:
                return tuple(self._checked(self._ids(text), text))
            except PivotalError as error:
                raise PivotalError(
                    f"The priming text must be in the model's words, but {text!r} is not ({error}). Give another, or "
                    "an empty one to read nothing before a sentence."
                ) from None
        plain, whole = self._ids(_BEFORE), list(self._tokenizer(_BEFORE)["input_ids"])
        for start in range(len(whole) - len(plain) + 1):
            if plain and whole[start : start + len(plain)] == plain:
                return tuple(whole[:start])
        return ()

    def priming_text(self) -> str:
        return "".join(str(t) for t in self._tokenizer.convert_ids_to_tokens(list(self.priming)))

    def encode(self, text: str) -> Encoding:
        made = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        ids = self._checked(list(made["input_ids"]), text)
        starts = [match.start() for match in re.finditer(r"\S+", text)]
        words = [_word_of(text, starts, a, b) for a, b in made["offset_mapping"]]
        if sorted(set(words)) != list(range(len(starts))) or words != sorted(words):
            raise PivotalError(f"some word has no tokens of its own: {text}")
        return Encoding(tuple(ids), tuple(words))

    def single_token(self, word: str) -> int:
        ids = self._ids(f"{_BEFORE} {word}")
        new = ids[len(self._anchor) :]
        if ids[: len(self._anchor)] != self._anchor or not new:
            raise PivotalError(f"no token of its own after a word: {word}")
        if len(new) > 1:
            raise PivotalError(
                f"several tokens after a space: {word} ({'|'.join(self.text(i) for i in new)})"
            )
        return self._checked(new, word)[0]

    def text(self, token: int) -> str:
        """With its leading space, if it has one."""
        if not self._anchor:
            return str(self._tokenizer.decode([token]))
        before = self._tokenizer.decode(self._anchor)
        return str(self._tokenizer.decode([*self._anchor, token]))[len(before) :]

    def continued(self, prompt: str, tokens: Sequence[int]) -> str:
        """All at once: a letter outside ASCII may be several tokens."""
        ids = self._ids(prompt)
        before = self._tokenizer.decode(ids)
        return prompt + str(self._tokenizer.decode([*ids, *tokens]))[len(before) :]

    def special(self) -> list[int]:
        """Tokens that are no text: the special ones, and rows of the embedding that no token uses."""
        used = range(len(self._tokenizer), self._vocabulary)
        return sorted({i for i in self._tokenizer.all_special_ids if i < self._vocabulary} | set(used))

    def words(self) -> list[str]:
        return _words_of(self._tokenizer)

    def _checked(self, ids: list[int], text: str) -> list[int]:
        unknown = self._tokenizer.unk_token_id
        if unknown is not None and unknown in ids and self._tokenizer.unk_token not in text:
            raise PivotalError(f"outside the vocabulary: {text}")
        if any(not 0 <= i < self._vocabulary for i in ids):
            raise PivotalError(f"outside the model's {self._vocabulary} embeddings: {text}")
        return ids


def digest_of_words(tokenizer: Any) -> str:
    """SHA-256 of the vocabulary."""
    return hashlib.sha256("\n".join(_words_of(tokenizer)).encode()).hexdigest()


def _words_of(tokenizer: Any) -> list[str]:
    """The vocabulary in the order of the ids, to tell tokenizers apart."""
    return [f"{i}:{word}" for i, word in sorted((i, word) for word, i in tokenizer.get_vocab().items())]


def share_of_whole_words(tokenizer: Any) -> float:
    """Of the words that are one token, how many are read as that token; 1 if there are none to look at. A tokenizer
    that has lost what joins the pieces of words knows them all and reads none of them whole."""
    tokens = Tokens(tokenizer, len(tokenizer))
    step = max(1, len(tokenizer) // _LOOKED_AT)
    words = {i: tokens.text(i) for i in range(0, len(tokenizer), step)}
    whole = [_reads(tokens, text[1:]) == i for i, text in words.items() if _WORD.fullmatch(text)]
    return sum(whole) / len(whole) if whole else 1.0


def _reads(tokens: Tokens, word: str) -> int | None:
    try:
        return tokens.single_token(word)
    except PivotalError:
        return None


def _word_of(text: str, starts: Sequence[int], a: int, b: int) -> int:
    """The word that the token at [a, b) belongs to; a token of white space belongs to the word that follows."""
    while a < len(text) - 1 and text[a].isspace():
        a += 1
    return max((i for i, start in enumerate(starts) if start <= a), default=0)
