"""Pairs as a model sees them: the tokens that it reads, and the tokens whose probabilities are compared.

The question of a pair is log p(first words) - log p(second words). Words of one token are compared as they are. Words
of several tokens are compared at the first token where they differ: the tokens that all of them share are read as the
end of the prefix. If a word ends there while another continues (walk / walk|s), it is represented by all tokens that
begin another word or punctuation.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pivotal.errors import PivotalError
from pivotal.models.base import LanguageModel
from pivotal.models.vocabulary import Encoding
from pivotal.questions.minimal_pair import MinimalPair, members, shown
from pivotal.questions.pairs import PairSet
from pivotal.records.summary import Rejections, told_reasons
from pivotal.units import Steps

T = TypeVar("T")
Tokens = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Contrast:
    """The two words of a pair as tokens."""

    shared: Tokens
    """The tokens that all words begin with. The model reads them after the prefix."""
    sides: tuple[Tokens, Tokens]
    """For each label the tokens, sorted, whose probabilities are added. No token is in both."""
    left_out: tuple[str, ...] = ()
    """The reasons why words of a set are left out, one for each word."""


@dataclass(frozen=True, slots=True)
class AskedPair:
    """A pair as a model sees it."""

    ids: Tokens
    """The tokens of the prefix, and those that the words share."""
    cue: int | None
    """The position of the cue among them; None without a cue."""
    sides: tuple[Tokens, Tokens]


_NOTHING = Contrast((), ((), ()))
"""What a pair without words asks."""


@dataclass(frozen=True)
class Asking:
    """Converts pairs to tokens of a model. Every prefix and every two words are converted once."""

    model: LanguageModel
    steps: Steps = "every"
    left_out: Counter[str] = field(default_factory=Counter)
    """The number of pairs that were asked without a word of a set, by reason."""
    _prefixes: dict[str, Encoding | str] = field(default_factory=dict)
    _words: dict[str, Tokens | str] = field(default_factory=dict)
    _contrasts: dict[tuple[str, str], Contrast | str] = field(default_factory=dict)

    def ask(self, pair: MinimalPair) -> AskedPair:
        """The pair as the model sees it. Raises PivotalError with the reason if the model cannot score it."""
        try:
            encoding = _once(self._prefixes, pair.prefix, self.model.encode)
        except PivotalError as error:
            raise self._with_words(str(error), pair.words) if pair.asks_words else error from None
        contrast = _once(self._contrasts, pair.words, self._contrast) if pair.asks_words else _NOTHING
        ids = checked_length(self.model, encoding.ids + contrast.shared)
        cue = None if pair.cue is None else encoding.last_token_of(pair.cue)
        if cue is None and self.steps == "single":
            raise PivotalError("no cue, which a single step needs")
        self.left_out.update(contrast.left_out)
        return AskedPair(ids, cue, contrast.sides)

    def _with_words(self, reason: str, words: tuple[str, str]) -> PivotalError:
        """The reason against a prefix; if it is also one against the words asked about, it names them too."""
        try:
            _once(self._contrasts, words, self._contrast)
        except PivotalError as error:
            kind, _, missing = str(error).partition(": ")
            if reason.startswith(f"{kind}: "):
                return PivotalError(f"{reason}, {missing}")
        return PivotalError(reason)

    def _contrast(self, words: tuple[str, str]) -> Contrast:
        known, left_out = self._known(words)
        shared = _shared([tokens for side in known for tokens in side.values()])
        first, second = ({word: tokens[shared:] for word, tokens in side.items()} for side in known)
        both = {rest[:1] for rest in first.values()} & {rest[:1] for rest in second.values()}
        if both and len(first) == len(second) == 1:
            raise PivotalError(f"the same tokens for both words: {' / '.join(words)}")
        for side in (first, second):
            for word in [word for word, rest in side.items() if rest[:1] in both]:
                left_out.append(f"the words of both labels begin with the same token: {word}")
                del side[word]
        if not first or not second:
            raise PivotalError(
                f"the words of both labels begin with the same token: {' / '.join(map(shown, words))}"
            )
        prefix = next(iter(known[0].values()))[:shared]
        return Contrast(prefix, self._sides(first, second), tuple(left_out))

    def _known(self, words: tuple[str, str]) -> tuple[list[dict[str, Tokens]], list[str]]:
        """The tokens of the words of both labels. A set may lack some of its words, but not all."""
        left_out: list[str] = []
        found = []
        for entry in words:
            side = {}
            for word in members(entry):
                try:
                    side[word] = _once(self._words, word, self.model.tokens_of)
                except PivotalError as error:
                    left_out.append(str(error))
            if not side:
                raise PivotalError(left_out[-1])
            found.append(side)
        return found, left_out

    def _sides(self, first: dict[str, Tokens], second: dict[str, Tokens]) -> tuple[Tokens, Tokens]:
        """The first token of each word; for a word that is complete, the tokens that end a word."""
        sides = [{rest[0] for rest in side.values() if rest} for side in (first, second)]
        for side, words in enumerate((first, second)):
            if () in words.values():
                ends = set(self.model.vocabulary.word_ends()) - sides[1 - side]
                if not ends:
                    word = next(word for word, rest in words.items() if not rest)
                    raise PivotalError(f"no token shows that the word is complete: {word}")
                sides[side] |= ends
        return tuple(sorted(sides[0])), tuple(sorted(sides[1]))


def checked_length(model: LanguageModel, ids: Tokens) -> Tokens:
    """Some tokens. Raises PivotalError if they are more than the model can read."""
    if model.longest is not None and len(ids) > model.longest:
        raise PivotalError(f"longer than the {model.longest} tokens that have a position")
    return ids


def _shared(sequences: list[Tokens]) -> int:
    """The number of tokens that all sequences begin with."""
    columns = zip(*sequences, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda column: len(set(column)) == 1, columns))


def _once(cache: dict[Any, Any], key: str | tuple[str, str], compute: Callable[..., T]) -> T:
    """The result of `compute(key)` from the cache, which holds the reason where it raises an error. The error itself
    would keep its traceback, and with it the model."""
    if key not in cache:
        try:
            cache[key] = compute(key)
        except PivotalError as error:
            cache[key] = str(error)
    found = cache[key]
    if isinstance(found, str):
        raise PivotalError(found)
    return found


@dataclass(frozen=True, slots=True)
class Rejected:
    """Counts of the pairs that the model cannot score, by reason."""

    reasons: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    """The number of pairs that are asked without some word of a set, by reason."""

    @property
    def total(self) -> int:
        return sum(self.reasons.values())

    def __add__(self, other: Rejected) -> Rejected:
        return Rejected(self.reasons + other.reasons, self.left_out + other.left_out)

    def describe(self) -> str:
        """The reasons with their counts, and the most frequent words for each reason."""
        return told_reasons(dict(self.reasons.most_common()))

    def record(self) -> Rejections:
        """The counts as they are stored, the most frequent reason first."""
        reasons = sorted(self.reasons.items(), key=lambda item: (-item[1], item[0]))
        return Rejections(total=self.total, reasons=dict(reasons))


def askable(model: LanguageModel, pairs: PairSet, steps: Steps) -> tuple[list[AskedPair], PairSet, Rejected]:
    """The pairs that the model can be asked, without running it, and the counts of the others by reason."""
    asking, reasons = Asking(model, steps), Counter[str]()
    asked, kept = [], []
    for i, pair in enumerate(pairs):
        try:
            asked.append(asking.ask(pair))
        except PivotalError as error:
            reasons[str(error)] += 1
            continue
        kept.append(i)
    return asked, pairs.take(kept), Rejected(reasons, asking.left_out)
