"""Vocabularies: how a model reads texts as tokens and writes tokens as text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pivotal.errors import PivotalError
from pivotal.questions.words import CLITICS, divided


@dataclass(frozen=True, slots=True)
class Encoding:
    """A text as token ids. Each token has the index of the whitespace-separated word that it belongs to."""

    ids: tuple[int, ...]
    word: tuple[int, ...]

    def last_token_of(self, word: int) -> int:
        """The position to edit for a word: its last token, where the model has read the whole word."""
        return len(self.word) - 1 - self.word[::-1].index(word)


class Vocabulary(ABC):
    """The tokens that a model can read, ids from 0 to `size - 1`."""

    size: int
    priming: tuple[int, ...] = ()
    """The tokens that the model reads before every sentence, such as BOS. They are never edited."""
    unknown_word: str | None = None
    """The word that stands for words outside the vocabulary, such as `<unk>`."""

    @abstractmethod
    def encode(self, text: str) -> Encoding:
        """The tokens of a prefix. Raises PivotalError if a word is outside the vocabulary."""

    @abstractmethod
    def tokens_of(self, word: str) -> tuple[int, ...]:
        """The tokens of `word` after a prefix. Raises PivotalError with the reason if it has none."""

    @abstractmethod
    def word(self, token: int) -> str:
        """The text of a token. `join` puts such texts together."""

    def word_ends(self) -> tuple[int, ...]:
        """The tokens that show that the word before them is complete: they begin another word, or are punctuation.
        Only a model whose words may have several tokens has any."""
        return ()

    def whole_words(self) -> list[str]:
        """The words that are a token of their own after another word."""
        words = (self.word(token).strip() for token in range(self.size))
        return list(dict.fromkeys(word for word in words if word))

    def unspeakable(self) -> list[int]:
        """The tokens that `generate` never chooses, such as `<unk>`."""
        return []

    def join(self, words: Sequence[str]) -> str:
        """Put the texts of tokens together."""
        return " ".join(words)

    def continued(self, prompt: str, tokens: Sequence[int]) -> str:
        """The text of a prompt followed by some tokens."""
        return self.join([prompt, *(self.word(token) for token in tokens)])

    def knows(self, word: str) -> bool:
        """Whether the model can read a word."""
        try:
            return bool(self.encode(word).ids)
        except PivotalError:
            return False

    def is_priming(self, text: str) -> bool:
        """Whether the tokens of a text are those of the priming."""
        try:
            return self.encode(text).ids == self.priming
        except PivotalError:
            return False


def in_order(ids: Mapping[str, int]) -> list[str]:
    """Words in the order of their ids, which must be 0, 1, 2 …"""
    words = {i: word for word, i in ids.items()}
    if words.keys() != set(range(len(ids))):
        raise PivotalError(
            f"The ids of {len(ids)} words must be 0 to {len(ids) - 1}, not {str(list(words))[:40]}."
        )
    return [words[i] for i in range(len(words))]


class WordVocabulary(Vocabulary):
    """Whole words, separated by white space. A contraction or a mark at the end of a word that the vocabulary lacks is
    divided, as in corpora: "can't" is read as "ca n't"."""

    def __init__(self, words: Sequence[str], unk: str, priming: str = "") -> None:
        self.words = tuple(words)
        self.size = len(self.words)
        self.ids = {word: i for i, word in enumerate(self.words)}
        self.unknown_word = unk if unk in self.ids else None
        try:
            self.priming = self.encode(priming).ids
        except PivotalError as error:
            raise PivotalError(
                f"The priming text must be in the model's words, but {priming!r} is not ({error}). Give another."
            ) from None

    def encode(self, text: str) -> Encoding:
        tokens = [self._tokens(word) for word in text.split()]
        missing = [word for word, ids in zip(text.split(), tokens, strict=True) if ids is None]
        if missing:
            raise PivotalError(f"outside the vocabulary: {', '.join(missing)}")
        pairs = [(i, number) for number, ids in enumerate(tokens) for i in ids or ()]
        return Encoding(tuple(i for i, _ in pairs), tuple(number for _, number in pairs))

    def tokens_of(self, word: str) -> tuple[int, ...]:
        tokens = self._tokens(word)
        if tokens is None:
            raise PivotalError(f"outside the vocabulary: {word}")
        return tokens

    def word(self, token: int) -> str:
        return self.words[token]

    def word_ends(self) -> tuple[int, ...]:
        """All words except those that continue the word before them, such as n't."""
        return tuple(i for i, word in enumerate(self.words) if word not in CLITICS)

    def unspeakable(self) -> list[int]:
        return [] if self.unknown_word is None else [self.ids[self.unknown_word]]

    def _tokens(self, word: str) -> tuple[int, ...] | None:
        if word in self.ids:
            return (self.ids[word],)
        parts = divided(word, self.ids.__contains__)
        return None if parts is None else tuple(self.ids[part] for part in parts)
