"""Ordinary text with the intervention applied: perplexity."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pivotal.models.base import LanguageModel
from pivotal.models.edits import MaskedEdit, dense
from pivotal.models.tree import PrefixTree
from pivotal.problem.text import mostly_unknown, sentences_of, tokens_of
from pivotal.records.evidence import TextCost
from pivotal.records.intervention import Intervention

_ROWS = 256
"""The most rows of the vocabulary-wide softmax in memory."""
_MOST_NATS = 700.0
"""The largest number whose exponential is finite."""


@torch.no_grad()
def text_cost(
    intervention: Intervention,
    model: LanguageModel,
    sentences: Sequence[str] | None = None,
    *,
    name: str = "the bundled text",
) -> TextCost | None:
    """Perplexity of sentences, untouched and edited towards each label. None if there are none, or if the model does
    not know most of their words: then its predictions say nothing about the text.

    A single-step intervention is applied at the middle token of each sentence, because ordinary text has no cue.
    """
    model = model.in_bases(intervention.bases)
    given = sentences_of() if sentences is None else sentences
    ids = [tokens for line in given if len(tokens := tokens_of(model, line)) > 1]
    if mostly_unknown(model, ids):
        return None
    middle = [len(tokens) // 2 for tokens in ids]
    tree = PrefixTree.build(ids, middle, [0] * len(ids), intervention.steps)
    space = model.unit_space(",".join(dict.fromkeys(unit.site for unit in intervention.units)))
    mask, values = dense(intervention, space, model.device)
    runs = 1 + len(intervention.directions)
    # One run per direction. The tree has one direction, so each run repeats its values in all directions.
    edit = MaskedEdit(
        space,
        torch.cat([torch.zeros_like(mask[:, :1]), mask.transpose(0, 1)]).expand(runs, mask.shape[1], -1),
        torch.cat([values[:, :1], values.transpose(0, 1)]).expand(runs, values.shape[1], -1),
    )
    states = model.states(model.prepare(tree), edit)
    rows, following = [], []
    for i, tokens in enumerate(ids):
        path = tree.path(int(tree.leaf[i]))
        live = [p for p in range(len(tokens) - 1) if tree.live[path[p]]]
        rows += [int(tree.live_row[path[p]]) for p in live]
        following += [tokens[p + 1] for p in live]
    nats = _nats(model, states, torch.tensor(rows), torch.tensor(following))
    perplexity = [math.exp(min(_MOST_NATS, mean)) for mean in nats.tolist()]
    return TextCost(
        text=name,
        tokens=len(rows),
        untouched=perplexity[0],
        edited=dict(zip(intervention.directions, perplexity[1:], strict=True)),
    )


def _nats(
    model: LanguageModel,
    states: Float[Tensor, "live runs width"],
    rows: Int[Tensor, " tokens"],
    following: Int[Tensor, " tokens"],
) -> Float[Tensor, " runs"]:
    """The mean of -log p of the following tokens, for each run."""
    total = torch.zeros(states.shape[1], dtype=torch.float64)
    for at, token in zip(rows.split(_ROWS), following.split(_ROWS), strict=True):
        logits = model.readout(states[at.to(states.device)])
        chosen = logits.gather(-1, token.to(logits.device)[:, None, None].expand(-1, logits.shape[1], 1))[
            ..., 0
        ]
        total += (logits.logsumexp(-1) - chosen).double().sum(0).cpu()
    return total / len(rows)
