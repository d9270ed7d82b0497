"""Assess a language model: its perplexity on a text, and how often it prefers the verb that agrees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pivotal.errors import PivotalError
from pivotal.lm.perplexity import Perplexity, lines_of, perplexity_of
from pivotal.models.base import LanguageModel
from pivotal.models.recurrent.lm import RecurrentLM
from pivotal.problem.problem import Problem
from pivotal.problem.unknown import with_unknown
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.questions.phenomena import load_phenomenon
from pivotal.questions.readers.lakretz import attractor_numbers
from pivotal.watch import Silent, Watch

PUBLISHED: Mapping[tuple[str, str], float] = {
    ("gulordava", "all"): 0.727,
    ("gulordava", "original"): 0.805,
    ("gulordava", "nonce"): 0.718,
    ("lakretz", "nounpp"): 0.943,
    ("lakretz", "nounpp SS"): 0.989,
    ("lakretz", "nounpp SP"): 0.867,
    ("lakretz", "nounpp PS"): 0.930,
    ("lakretz", "nounpp PP"): 0.987,
}
"""Accuracy of the model of Gulordava et al. (hidden650_batch128_dropout0.2_lr20.0), from its published
log-probabilities: on their 410 sentences, and on 4,000 nounpp sentences of Lakretz et al."""

_NATURAL = {"gulordava"}


@dataclass(frozen=True)
class AccuracyShare:
    """The model prefers the correct word in `right` of `n` pairs."""

    right: int
    n: int

    @property
    def value(self) -> float:
        return self.right / self.n


@dataclass(frozen=True)
class Agreement:
    """Accuracy on a phenomenon: over all pairs, per construction, and for nounpp per number of the two nouns."""

    phenomenon: str
    shares: Mapping[str, AccuracyShare]
    rejected: Mapping[str, int]
    """The reasons why pairs were left out, with the number of pairs."""
    with_unk: int = 0
    """Pairs with an unknown word in the prefix, read as `<unk>`."""


@dataclass(frozen=True)
class Assessment:
    """The result of `assess`."""

    model: str
    fingerprint: str
    agreement: tuple[Agreement, ...]
    perplexity: Perplexity | None = None


def assess(
    model: LanguageModel,
    *,
    phenomena: Sequence[str] = ("number-agreement",),
    text: Path | None = None,
    tokens: int | None = None,
    watch: Watch | None = None,
) -> Assessment:
    """Measure agreement on the phenomena (`number-agreement`, `lakretz:FOLDER`, `gulordava:FILE` …), and perplexity on
    a text or its first `tokens` tokens. The perplexity is None for models that are not recurrent."""
    watch = watch or Silent()
    # Load all pairs first, so that a missing or malformed file is reported before the long work.
    sets = [load_phenomenon(spec) for spec in phenomena]
    perplexity = None
    if text is not None and isinstance(model, RecurrentLM):
        perplexity = perplexity_of(model, lines_of(text), name=text.name, tokens=tokens, watch=watch)
    found = []
    for pairs in sets:
        watch.say(f"{model.name}: {len(pairs):,} pairs of {pairs.name}.")
        found.append(agreement(model, pairs))
    return Assessment(model.name, model.fingerprint(), tuple(found), perplexity)


# -- agreement ------------------------------------------------------------------------------------------------------


def agreement(model: LanguageModel, pairs: PairSet) -> Agreement:
    """Which of the two words the model prefers after each prefix.

    In sentences from a treebank, a recurrent model reads unknown words as `<unk>`, as in training. It must know the cue
    and the two words.
    """
    with_unk = 0
    if pairs.name in _NATURAL and isinstance(model, RecurrentLM):
        read = with_unknown(model, pairs)
        with_unk = sum(a.prefix != b.prefix for a, b in zip(read, pairs, strict=True))
        pairs = read
    try:
        problem = Problem(model, pairs, steps="every")
    except PivotalError as error:  # a small vocabulary may lack all of the words; report the other figures
        return Agreement(pairs.name, {}, {str(error): len(pairs)})
    shares = score(problem.pairs, 1 - problem.direction)
    return Agreement(pairs.name, shares, dict(problem.rejected.reasons), with_unk)


def score(pairs: PairSet, prefers: np.ndarray) -> dict[str, AccuracyShare]:
    """Accuracy by group. `prefers[i]` is the index of the label that the model prefers in pair i."""
    right: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for pair, preferred in zip(pairs, prefers.tolist(), strict=True):
        names = ("all", pair.group, _condition(pair)) if pair.label else ()
        for name in filter(None, names):
            count[name] += 1
            right[name] += pairs.labels[preferred] == pair.label
    return {name: AccuracyShare(right[name], n) for name, n in count.items()}


def _condition(pair: MinimalPair) -> str:
    """For example `nounpp SP`: a singular subject, and a plural noun closer to the verb."""
    number = attractor_numbers()
    nouns = [word for word in pair.prefix.split()[2:] if word in number]
    if not pair.group.startswith("nounpp") or len(nouns) != 1:
        return ""
    return f"{pair.group} {pair.label[0].upper()}{number[nouns[0]][0].upper()}"
