"""The vocabulary of a word-level model."""

from __future__ import annotations

from collections.abc import Sequence

from pivotal.errors import PivotalError
from pivotal.models.base import Encoding
from pivotal.questions.contractions import CLITICS, divided


class WordVocabulary:
    """Whole words, separated by white space. A contraction or a mark at the end of a word that the vocabulary lacks is
    divided, as in corpora: "can't" is read as "ca n't"."""

    def __init__(self, words: Sequence[str], unk: str, priming: str = "") -> None:
        self.words = tuple(words)
        self.ids = {word: i for i, word in enumerate(self.words)}
        self.unk = unk if unk in self.ids else None
        self.priming = self.encode(priming).ids

    def encode(self, text: str) -> Encoding:
        ids: list[int] = []
        of: list[int] = []
        missing = []
        for number, word in enumerate(text.split()):
            tokens = self._tokens(word)
            if tokens is None:
                missing.append(word)
            else:
                ids += tokens
                of += [number] * len(tokens)
        if missing:
            raise PivotalError(f"outside the vocabulary: {', '.join(missing)}")
        return Encoding(tuple(ids), tuple(of))

    def is_priming(self, text: str) -> bool:
        """Whether the tokens of a text are those of the priming."""
        try:
            return self.encode(text).ids == self.priming
        except PivotalError:
            return False

    def tokens_of(self, word: str) -> tuple[int, ...]:
        tokens = self._tokens(word)
        if tokens is None:
            raise PivotalError(f"outside the vocabulary: {word}")
        return tokens

    def ends(self) -> tuple[int, ...]:
        """All words except those that continue the word before them, such as n't."""
        return tuple(i for i, word in enumerate(self.words) if word not in CLITICS)

    def whole_words(self) -> list[str]:
        return list(self.words)

    def text(self, token: int) -> str:
        return self.words[token]

    def continued(self, prompt: str, tokens: Sequence[int]) -> str:
        return " ".join([prompt, *(self.words[token] for token in tokens)])

    def special(self) -> list[int]:
        return [] if self.unk is None else [self.ids[self.unk]]

    def listed(self) -> Sequence[str]:
        return self.words

    def _tokens(self, word: str) -> tuple[int, ...] | None:
        if word in self.ids:
            return (self.ids[word],)
        parts = divided(word, self.ids.__contains__)
        return None if parts is None else tuple(self.ids[part] for part in parts)
