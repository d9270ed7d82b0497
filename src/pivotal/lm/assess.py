"""Assess a language model: its perplexity on a text, and how often it prefers the verb that agrees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch

from pivotal.errors import PivotalError
from pivotal.lm.corpus import blocks, ids_of, text_of
from pivotal.lm.learner import columns_for, perplexity_at
from pivotal.models.base import LanguageModel
from pivotal.models.recurrent.lm import RecurrentLM
from pivotal.problem.problem import Problem
from pivotal.problem.text import with_unknown
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.questions.phenomena import load_phenomenon
from pivotal.questions.templates.template_file import bundled, read_template
from pivotal.questions.words import EOS
from pivotal.records.run import Progress
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

_STEPS, _ROWS = 64, 512
"""Steps read before each readout, and rows of the softmax over the vocabulary computed at a time."""


@dataclass(frozen=True)
class Perplexity:
    """exp(mean of -log p) over the words of a text and the `<eos>` after each sentence."""

    text: str
    tokens: int
    all: float
    without_unk: float
    """Over the targets that are not `<unk>`."""
    unk_share: float


@dataclass(frozen=True)
class AccuracyShare:
    """The model prefers the correct word in `right` of `n` pairs."""

    right: int
    n: int
    value: float
    published: float | None = None


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
    """Measure agreement on the phenomena (`number-agreement`, `gulordava.jsonl` …), and perplexity on
    a text or its first `tokens` tokens. The perplexity is None for models that are not recurrent."""
    watch = watch or Silent()
    # Load all pairs first, so that a missing or malformed file is reported before the long work.
    sets = [load_phenomenon(spec) for spec in phenomena]
    perplexity = None
    if text is not None and isinstance(model, RecurrentLM):
        perplexity = perplexity_of(model, pieces_of(text), name=text.name, tokens=tokens, watch=watch)
    measured = []
    for pairs in sets:
        watch.say(f"{model.name}: {len(pairs):,} pairs of {pairs.name}.")
        measured.append(agreement(model, pairs))
    return Assessment(model.name, model.fingerprint(), tuple(measured), perplexity)


# -- perplexity -----------------------------------------------------------------------------------------------------


def pieces_of(path: Path) -> Iterator[str]:
    """The text of a file, plain or compressed, in pieces."""
    return (text_of(block, path) for block in blocks(path))


def perplexity_of(
    model: RecurrentLM,
    text: Iterable[str],
    *,
    name: str = "",
    tokens: int | None = None,
    columns: int | None = None,
    watch: Watch | None = None,
) -> Perplexity:
    """Read the pieces of a text as one stream, with `<eos>` after each line and the state carried from one to the next.

    The stream is cut into columns that are read in parallel. Each starts from the zero state and the token before it.
    """
    ids, unk = _encoded(model, text, tokens), model.tokens_of(model.unk)[0]
    sums, known = np.zeros(2), int((ids != unk).sum())
    if not known:
        raise PivotalError(f"The text must contain words that {model.name} knows, but it has none.")
    for targets, nats in surprisals(model, ids, columns, watch):
        sums += nats.sum(), nats[targets != unk].sum()
    every, without_unk = map(perplexity_at, sums / (len(ids), known))
    return Perplexity(name, len(ids), every, without_unk, 1 - known / len(ids))


def mean_surprisal(model: RecurrentLM, ids: np.ndarray) -> float:
    """The mean of -log p over a stream of ids, in nats."""
    return sum(float(nats.sum()) for _, nats in surprisals(model, ids)) / len(ids)


@torch.no_grad()
def surprisals(
    model: RecurrentLM, ids: np.ndarray, columns: int | None = None, watch: Watch | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The ids of all tokens of a stream, which is read after an `<eos>`, with their -log p in nats, some at a time."""
    columns, watch = columns or columns_for(len(ids)), watch or Silent()
    length = -(-len(ids) // columns)
    stream = np.zeros(columns * length + 1, np.int64)
    stream[0], stream[1 : len(ids) + 1] = model.tokens_of(EOS)[0], ids
    inputs, targets = (part.reshape(columns, length).T for part in (stream[:-1], stream[1:]))
    inside = len(ids) > np.arange(columns * length).reshape(columns, length).T
    states = None
    for start in range(0, length, _STEPS):
        watch.progress(Progress(f"{model.name}: perplexity", start * columns, len(ids)))
        some = slice(start, start + _STEPS)
        tops, states = model.read(torch.tensor(inputs[some], device=model.device), states)
        aims = torch.tensor(targets[some], device=model.device).flatten()
        parts = zip(tops.flatten(0, 1).split(_ROWS), aims.split(_ROWS), strict=True)
        nats = [
            torch.nn.functional.cross_entropy(model.readout(rows), wanted, reduction="none")
            for rows, wanted in parts
        ]
        held = inside[some].ravel()
        yield targets[some].ravel()[held], torch.cat(nats).cpu().double().numpy()[held]


def _encoded(model: RecurrentLM, text: Iterable[str], tokens: int | None) -> np.ndarray:
    """The first `tokens` ids of a text, encoded as in training."""
    words = model.vocabulary.ids
    for needed in (model.unk, EOS):
        if needed not in words:
            raise PivotalError(f"To read a text, a model needs {needed}, but {model.name} does not have it.")
    parts, left = [np.zeros(0, np.int32)], np.inf if tokens is None else tokens
    for piece in text:
        parts.append(ids_of(piece, words, model.unk))
        left -= len(parts[-1])
        if left <= 0:
            break
    ids = np.concatenate(parts)[:tokens]
    if not len(ids):
        raise PivotalError("The text must have at least one sentence, but it is empty.")
    return ids


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
    return {
        name: AccuracyShare(right[name], n, right[name] / n, PUBLISHED.get((pairs.name, name)))
        for name, n in count.items()
    }


def _condition(pair: MinimalPair) -> str:
    """For example `nounpp SP`: a singular subject, and a plural noun closer to the verb."""
    number = attractor_numbers()
    nouns = [word for word in pair.prefix.split()[2:] if word in number]
    if not pair.group.startswith("nounpp") or len(nouns) != 1:
        return ""
    return f"{pair.group} {pair.label[0].upper()}{number[nouns[0]][0].upper()}"


@cache
def attractor_numbers() -> Mapping[str, str]:
    """The number of each form of the nouns between subject and verb in `number-agreement`."""
    entries = read_template(bundled()["number-agreement"]).lexicon["attractor"].entries
    return {word: number for entry in entries for number, word in entry.forms.items()}
