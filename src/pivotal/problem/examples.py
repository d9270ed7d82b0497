"""Pairs prepared for a model: tokenised, in a prefix tree, with the word that the untouched model prefers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.models.base import Encoding, LanguageModel
from pivotal.models.tree import PrefixTree
from pivotal.questions.pairs import MinimalPair, PairSet
from pivotal.units import Steps


@dataclass(frozen=True, slots=True)
class Rejected:
    """Counts of the pairs that the model cannot be asked, by reason."""

    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        return sum(self.reasons.values())

    def describe(self, most: int = 5) -> str:
        listed = [f"{reason} ({count})" for reason, count in self.reasons.most_common(most)]
        more = len(self.reasons) - most
        return "; ".join(listed) + (f"; and {more} other reasons" if more > 0 else "")


@dataclass(frozen=True, slots=True)
class Examples:
    """The pairs that the model can be asked, with the data that a masked run needs."""

    pairs: PairSet
    tree: PrefixTree
    direction: np.ndarray
    """For each example, the index of the target label. It is the label of the word that is not preferred."""
    words: np.ndarray
    """For each example, the tokens of its two words, in the order of the labels."""
    rejected: Rejected

    @staticmethod
    def of(model: LanguageModel, pairs: PairSet, steps: Steps) -> Examples:
        questions, kept, rejected = _questions(model, pairs)
        preferred = _clean_preference(model, questions)
        if undecided := int((preferred < 0).sum()):
            rejected.reasons[_UNDECIDED] += undecided
            chosen = np.flatnonzero(preferred >= 0).tolist()
            questions, kept, preferred = (
                [questions[i] for i in chosen],
                [kept[i] for i in chosen],
                preferred[chosen],
            )
            _check_some(questions, model, pairs, rejected)
        direction = 1 - preferred
        ids, cues = [q.ids for q in questions], [q.cue for q in questions]
        return Examples(
            PairSet(name=pairs.name, labels=pairs.labels, pairs=tuple(kept)),
            PrefixTree.build(ids, cues, direction.tolist(), steps),
            direction,
            np.array([q.words for q in questions]),
            rejected,
        )

    def restrict(self, chosen: np.ndarray) -> Examples:
        """A subset of the examples."""
        pairs = self.pairs
        return replace(
            self,
            pairs=PairSet(pairs.name, pairs.labels, tuple(pairs.pairs[i] for i in chosen.tolist())),
            tree=self.tree.restrict(chosen),
            direction=self.direction[chosen],
            words=self.words[chosen],
        )


@dataclass(frozen=True, slots=True)
class WordIndex:
    """The indices of the two logits of each example in a readout of the distinct words at the distinct leaves."""

    vocabulary: Int[Tensor, " words"]
    leaves: Int[Tensor, " leaves"]
    leaf: Int[Tensor, " examples"]
    d: Int[Tensor, " examples"]
    """The column of the preferred word."""
    t: Int[Tensor, " examples"]
    """The column of the target, the other word."""

    @staticmethod
    def of(examples: Examples, device: torch.device) -> WordIndex:
        tree, direction, rows = examples.tree, examples.direction, np.arange(len(examples.direction))
        vocabulary, column = np.unique(examples.words, return_inverse=True)
        column = column.reshape(examples.words.shape)
        leaves, leaf = np.unique(tree.live_row[tree.leaf], return_inverse=True)
        found = (vocabulary, leaves, leaf, column[rows, 1 - direction], column[rows, direction])
        return WordIndex(*(torch.as_tensor(indices, device=device) for indices in found))


@dataclass(frozen=True, slots=True)
class _Question:
    """A pair as the model sees it."""

    ids: tuple[int, ...]
    cue: int
    words: tuple[int, int]


def _questions(model: LanguageModel, pairs: PairSet) -> tuple[list[_Question], list[MinimalPair], Rejected]:
    """The pairs that the model can be asked. The other pairs are counted by reason."""
    encodings: dict[str, Encoding | PivotalError] = {}
    tokens: dict[str, int | PivotalError] = {}
    rejected = Rejected()
    questions, kept = [], []
    for pair in pairs:
        try:
            encoding = _once(encodings, pair.prefix, model.encode)
            if model.longest is not None and len(encoding.ids) > model.longest:
                raise PivotalError(f"longer than the {model.longest} tokens that have a position")
            first, second = (_once(tokens, word, model.single_token) for word in pair.words)
            if first == second:
                raise PivotalError(f"the same token for both words: {' / '.join(pair.words)}")
        except PivotalError as error:
            rejected.reasons[str(error)] += 1
            continue
        questions.append(_Question(encoding.ids, encoding.last_token_of(pair.cue), (first, second)))
        kept.append(pair)
    _check_some(questions, model, pairs, rejected)
    return questions, kept, rejected


_UNDECIDED = "no preference: the model gives both words the same probability, or none"


def _check_some(questions: list[_Question], model: LanguageModel, pairs: PairSet, rejected: Rejected) -> None:
    if not questions:
        raise PivotalError(
            f"None of the {len(pairs)} pairs can be asked of {model.name}: {rejected.describe()}. "
            "Use words that the model knows in texts that it has room for, or another model."
        )


def _once(cache: dict[str, Any], key: str, compute: Any) -> Any:
    if key not in cache:
        try:
            cache[key] = compute(key)
        except PivotalError as error:
            cache[key] = error
    if isinstance(cache[key], PivotalError):
        raise cache[key]
    return cache[key]


@torch.no_grad()
def _clean_preference(model: LanguageModel, questions: list[_Question]) -> np.ndarray:
    """The index (0 or 1) of the word that the untouched model prefers; -1 if it prefers neither. A tie is no
    preference: there would be nothing to flip, and its accuracy would depend on the order of the labels."""
    tree = PrefixTree.build([q.ids for q in questions])
    states = model.states(model.prepare(tree))[:, 0]
    words = np.array([q.words for q in questions])
    vocabulary, column = np.unique(words, return_inverse=True)
    logits = model.readout(states, torch.as_tensor(vocabulary, device=model.device)).cpu().numpy()
    rows, column = tree.live_row[tree.leaf], column.reshape(words.shape)
    first, second = logits[rows, column[:, 0]], logits[rows, column[:, 1]]
    return np.select([first > second, second > first], [0, 1], default=-1)  # NaN is neither
