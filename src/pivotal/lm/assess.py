"""How good a language model is: its perplexity on a text, and how often it prefers the verb that agrees."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from pivotal.errors import PivotalError
from pivotal.lm.corpus import blocks, text_of
from pivotal.lm.watching import Progress, Silent, Watch
from pivotal.models.base import LanguageModel
from pivotal.models.recurrent import RecurrentLM
from pivotal.pairs import MinimalPair, PairSet
from pivotal.phenomena import load_phenomenon
from pivotal.phenomena.number_agreement import LABELS, PLACES
from pivotal.problem import Problem

EOS = "<eos>"

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
"""The model of Gulordava et al. (hidden650_batch128_dropout0.2_lr20.0), as its published log-probabilities have it: on
their 410 sentences, and on 4,000 nounpp sentences of Lakretz et al."""

_COLUMNS, _TOKENS_PER_COLUMN = 64, 1000
"""A text is read in so many columns at once, unless they would be short: each begins at the zero state."""
_STEPS, _ROWS = 64, 512
"""Steps between two readouts, and rows of the vocabulary-wide softmax that exist at one time."""

_NATURAL = {"gulordava"}
_NUMBER = {form: label for forms in PLACES for form, label in zip(forms, LABELS, strict=True)}


@dataclass(frozen=True)
class Perplexity:
    """exp of the mean of -log p over the words of a text and the `<eos>` after each sentence."""

    text: str
    tokens: int
    all: float
    without_unk: float
    """Over the targets that are not `<unk>`."""
    unk_share: float


@dataclass(frozen=True)
class Share:
    """Of `n` pairs, in how many the model prefers the right word."""

    right: int
    n: int

    @property
    def value(self) -> float:
        return self.right / self.n


@dataclass(frozen=True)
class Agreement:
    """How often a model is right about a phenomenon: `all`, by construction, and nounpp by the two nouns' numbers."""

    phenomenon: str
    shares: Mapping[str, Share]
    rejected: Mapping[str, int]
    """Why some pairs could not be asked, and how many."""
    with_unk: int = 0
    """Pairs of whose prefix some word was read as `<unk>`."""


@dataclass(frozen=True)
class Assessment:
    """What `assess` found about a model."""

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
    """Agreement on the phenomena (`number-agreement`, `lakretz:FOLDER`, `gulordava:FILE` …), and perplexity on a text,
    on its first `tokens` if given. A text is for recurrent models: of others the perplexity is None."""
    watch = watch or Silent()
    # Whatever is missing or malformed shows before the long work begins.
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
    """Asks the model which of the two words it prefers after each prefix.

    In sentences from a treebank a recurrent model reads words that it does not know as `<unk>`, as it has learned to;
    the cue and the two words must be known.
    """
    with_unk = 0
    if pairs.name in _NATURAL and isinstance(model, RecurrentLM):
        known = set(model.words)
        read = tuple(_with_unk(pair, known, model.unk) for pair in pairs)
        with_unk = sum(a.prefix != b.prefix for a, b in zip(read, pairs, strict=True))
        pairs = PairSet(pairs.name, pairs.labels, read)
    problem = Problem(model, pairs, steps="every")
    shares = score(problem.pairs, 1 - problem.direction)
    return Agreement(pairs.name, shares, dict(problem.rejected.reasons), with_unk)


def score(pairs: PairSet, prefers: np.ndarray) -> dict[str, Share]:
    """`prefers[i]` is the index of the label whose word is the likelier one after the prefix of pair i."""
    right: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for pair, preferred in zip(pairs, prefers.tolist(), strict=True):
        names = ("all", pair.group, _condition(pair)) if pair.label else ()
        for name in filter(None, names):
            count[name] += 1
            right[name] += pairs.labels[preferred] == pair.label
    return {name: Share(right[name], n) for name, n in count.items()}


def _condition(pair: MinimalPair) -> str:
    """`nounpp SP`: a singular subject, and a plural noun nearer to the verb."""
    nouns = [word for word in pair.prefix.split()[2:] if word in _NUMBER]
    if not pair.group.startswith("nounpp") or len(nouns) != 1:
        return ""
    return f"{pair.group} {pair.label[0].upper()}{_NUMBER[nouns[0]][0].upper()}"


def _with_unk(pair: MinimalPair, known: set[str], unk: str) -> MinimalPair:
    words = pair.prefix.split()
    if unk not in known or words[pair.cue] not in known or all(word in known for word in words):
        return pair
    return replace(pair, prefix=" ".join(word if word in known else unk for word in words))


# -- perplexity -----------------------------------------------------------------------------------------------------


def lines_of(path: Path) -> Iterator[str]:
    """The sentences of a text file, plain or compressed."""
    for block in blocks(path):
        yield from text_of(block, str(path)).split("\n")


def perplexity_of(
    model: RecurrentLM,
    lines: Iterable[str],
    *,
    name: str = "",
    tokens: int | None = None,
    columns: int | None = None,
    watch: Watch | None = None,
) -> Perplexity:
    """Reads the sentences as one stream, `<eos>` after each, and carries the state from one to the next.

    The stream is cut into columns that are read side by side, each from the zero state and the token before it.
    """
    stream = _stream(model, lines, tokens)
    if columns is None:
        columns = max(1, min(_COLUMNS, len(stream) // _TOKENS_PER_COLUMN))
    nats = surprisals(model, stream, columns, watch or Silent())
    is_unk = stream == model.single_token(model.unk)
    if is_unk.all():
        raise PivotalError(f"The text must have words that {model.name} knows, but it has none.")
    return Perplexity(
        name,
        len(stream),
        math.exp(nats.mean()),
        math.exp(nats[~is_unk].mean()),
        float(is_unk.mean()),
    )


@torch.no_grad()
def surprisals(model: RecurrentLM, stream: np.ndarray, columns: int, watch: Watch) -> np.ndarray:
    """-log p of every token of the stream, in nats. Before the first one the model has read `<eos>`."""
    length = -(-len(stream) // columns)
    targets = np.full(columns * length, stream[-1])
    targets[: len(stream)] = stream
    before = np.concatenate([[model.single_token(EOS)], targets[:-1]])
    inputs, aims = (
        torch.from_numpy(ids.reshape(columns, length).T.copy()).to(model.device) for ids in (before, targets)
    )
    nats, states = [], None
    for start in range(0, length, _STEPS):
        watch.progress(Progress(f"{model.name}: perplexity", start * columns, len(stream)))
        tops, states = model.read(inputs[start : start + _STEPS], states)
        rows, words = tops.flatten(0, 1), aims[start : start + _STEPS].flatten()
        for some, aim in zip(rows.split(_ROWS), words.split(_ROWS), strict=True):
            nats.append(torch.nn.functional.cross_entropy(model.readout(some), aim, reduction="none"))
    found: np.ndarray = torch.cat(nats).view(length, columns).t().flatten().cpu().double().numpy()
    return found[: len(stream)]


def _stream(model: RecurrentLM, lines: Iterable[str], tokens: int | None) -> np.ndarray:
    """The ids of all words, `<eos>` after every line that has any; of no more lines than `tokens` needs."""
    ids = {word: i for i, word in enumerate(model.words)}
    unk, eos = model.single_token(model.unk), model.single_token(EOS)
    parts: list[np.ndarray] = []
    left = math.inf if tokens is None else tokens
    for line in lines:
        if left <= 0:
            break
        words = line.split()
        if words:
            parts.append(np.array([*(ids.get(word, unk) for word in words), eos]))
            left -= len(parts[-1])
    if not parts:
        raise PivotalError("The text must have at least one sentence, but it is empty.")
    return np.concatenate(parts)[:tokens]
