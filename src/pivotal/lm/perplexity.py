"""Perplexity of a recurrent model on a text, the same for `eval-lm` and for the card of a trained model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from pivotal.errors import PivotalError
from pivotal.lm.corpus import blocks, text_of
from pivotal.lm.encoding import ids_of
from pivotal.lm.stream import columns_for
from pivotal.models.recurrent.lm import RecurrentLM
from pivotal.questions.words import EOS
from pivotal.records.run import Progress
from pivotal.watch import Silent, Watch

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
    """Read the sentences as one stream, with `<eos>` after each and the state carried from one to the next.

    The stream is cut into columns that are read in parallel. Each starts from the zero state and the token before it.
    """
    stream = _stream(model, lines, tokens)
    nats = surprisals(model, stream, columns, watch)
    is_unk = stream == model.tokens_of(model.unk)[0]
    if is_unk.all():
        raise PivotalError(f"The text must contain words that {model.name} knows, but it has none.")
    return Perplexity(
        name,
        len(stream),
        math.exp(nats.mean()),
        math.exp(nats[~is_unk].mean()),
        float(is_unk.mean()),
    )


@torch.no_grad()
def surprisals(
    model: RecurrentLM, stream: np.ndarray, columns: int | None = None, watch: Watch | None = None
) -> np.ndarray:
    """-log p of every token of the stream, in nats. The first token follows an `<eos>`."""
    columns, watch = columns or columns_for(len(stream)), watch or Silent()
    length = -(-len(stream) // columns)
    targets = np.full(columns * length, stream[-1], dtype=np.int64)
    targets[: len(stream)] = stream
    before = np.concatenate([model.tokens_of(EOS), targets[:-1]])
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
    """The first `tokens` ids of the sentences, encoded as in training."""
    words = {word: i for i, word in enumerate(model.words)}
    for needed in (model.unk, EOS):
        if needed not in words:
            raise PivotalError(
                f"To read a text, a model needs the word {needed}, but {model.name} does not have it."
            )
    parts: list[np.ndarray] = []
    left = math.inf if tokens is None else tokens
    for line in lines:
        if left <= 0:
            break
        parts.append(ids_of(f"{line}\n", words, model.unk))
        left -= len(parts[-1])
    if not sum(map(len, parts)):
        raise PivotalError("The text must have at least one sentence, but it is empty.")
    return np.concatenate(parts)[:tokens]
