"""The words of a model, in the order of their ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pivotal.errors import PivotalError
from pivotal.questions.words import EOS, UNK, read_words


@dataclass(frozen=True)
class Vocabulary:
    """Contains `<unk>`, which replaces unknown words, and `<eos>`, which ends a sentence and precedes the first."""

    words: tuple[str, ...]

    def __post_init__(self) -> None:
        missing = [word for word in (UNK, EOS) if word not in self.ids]
        if missing:
            listed = f"{missing[0]} is missing" if len(missing) == 1 else "both are missing"
            raise PivotalError(
                f"A vocabulary needs the words {UNK} and {EOS}, but {listed}. Add a line for each."
            )
        if len(self.ids) < len(self.words):
            twice = next(word for word, count in Counter(self.words).items() if count > 1)
            raise PivotalError(
                f"Every word of a vocabulary must be unique, but {twice!r} occurs twice. Remove one."
            )

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def ids(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    @staticmethod
    def most_frequent(counts: Mapping[str, int], size: int) -> Vocabulary:
        """`<unk>`, `<eos>` and the most frequent words. Ties are broken alphabetically."""
        ordered = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
        words = [word for word, _ in ordered if word not in (UNK, EOS)]
        return Vocabulary((UNK, EOS, *words[: size - 2]))

    @staticmethod
    def read(path: Path) -> Vocabulary:
        """Read a file with one word per line."""
        lines = read_words(path)
        for number, line in enumerate(lines, start=1):
            if line.split() != [line]:
                raise PivotalError(
                    f"A vocabulary has one word per line, but line {number} of {path} is {line!r}."
                )
        try:
            return Vocabulary(tuple(lines))
        except PivotalError as error:
            raise PivotalError(f"{path}: {error}") from None
