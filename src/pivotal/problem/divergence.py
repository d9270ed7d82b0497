"""KL of the next-word distributions of an edited model to those of another run, and where it is measured."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pivotal.models.base import LanguageModel
from pivotal.models.tensors import distinct_rows
from pivotal.problem.examples import Examples

_ROWS = 512
"""Maximum rows of the vocabulary-wide softmax in memory."""


def divergence(
    reference: Float[Tensor, "nodes vocabulary"], edited: Float[Tensor, "nodes runs vocabulary"]
) -> Float[Tensor, "nodes runs"]:
    """KL(reference || edited) of two distributions given by their logits. Only `edited` has a gradient.

    The sum over the vocabulary is a sum of differences. Logits of transformers are in the tens, and a sum of 50,000
    logits in float32 has an error of several thousandths, as large as the KL of a small edit.
    """
    found: Tensor = _KL.apply(reference, edited)
    return found


class _KL(torch.autograd.Function):
    """The sum over the vocabulary of p * (log p - log q), whose gradient by the logits of q is q - p.

    As separate operations, the passes over all logits take as long as the product that computes the logits.
    """

    @staticmethod
    def forward(ctx: Any, reference: Tensor, edited: Tensor) -> Tensor:  # type: ignore[override]
        log_p, log_q = reference.log_softmax(-1), edited.log_softmax(-1)
        p = log_p.exp()
        if ctx.needs_input_grad[1]:
            ctx.save_for_backward(p, log_q)
            lower = log_p[:, None] - log_q
        else:
            lower = log_q.neg_().add_(log_p[:, None])
        return torch.bmm(lower, p[..., None])[..., 0]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:  # type: ignore[override]
        p, log_q = ctx.saved_tensors
        return None, log_q.exp().sub_(p[:, None]).mul_(grad[..., None])


class KLReference:
    """KL(reference || edited) at the live nodes of a prefix tree. The reference is given by its states at these nodes:
    those of the untouched model, or those that it has after the counterfactual prefixes."""

    def __init__(
        self,
        model: LanguageModel,
        states: Float[Tensor, "live width"],
        positions: Positions,
        live_share: float | Float[Tensor, ""],
    ) -> None:
        self._model, self._states, self._positions, self._live_share = model, states, positions, live_share

    @cached_property
    def _distributions(self) -> _Distributions | None:
        """The distributions at all nodes. A search compares many masks with them."""
        return _Distributions.of(self._model, self._states)

    @cached_property
    def _weighted(self) -> _Distributions | None:
        """The distributions at the nodes that count in the mean. The sentences that must stay are often more."""
        return _Distributions.of(self._model, self._states[self._positions.weighted])

    def at(
        self, states: Float[Tensor, "live runs width"], nodes: Int[Tensor, " nodes"] | None = None
    ) -> Float[Tensor, "nodes runs"]:
        """KL at some live nodes (all by default), in chunks. A node may occur several times."""
        if nodes is None:
            return self._at_all(states, self._states, self._distributions)
        if nodes.is_cuda:  # it would have to wait until the repeated nodes are found
            return self._in_chunks(states[nodes], self._states[nodes])
        # Drawn nodes repeat: the first words of many sentences are drawn most often.
        distinct, place = nodes.unique(return_inverse=True)
        return self._in_chunks(distinct_rows(states, distinct), self._states[distinct])[place]

    def once(self, states: Float[Tensor, "live runs width"]) -> Float[Tensor, "live runs"]:
        """KL at all live nodes, without keeping anything for later runs."""
        return self._in_chunks(states, self._states)

    def mean(
        self, states: Float[Tensor, "live runs width"], drawn: Int[Tensor, " nodes"] | None = None
    ) -> Float[Tensor, " runs"]:
        """KL averaged over the positions of each sentence, then over the sentences, as in the paper. It is estimated at
        the drawn positions if there are some."""
        if drawn is not None:
            return self.at(states, drawn).mean(0) * self._live_share
        weight, nodes = self._positions.weight, self._positions.weighted
        if nodes is None:
            return weight @ self.at(states)
        return weight[nodes] @ self._at_all(states[nodes], self._states[nodes], self._weighted)

    def by_direction(
        self, states: Float[Tensor, "live runs width"], drawn: Int[Tensor, " nodes"], directions: int
    ) -> Float[Tensor, "runs directions"]:
        """The parts of the mean, estimated at the drawn positions, that belong to each direction of the edit."""
        labels = torch.arange(directions, device=drawn.device)
        share = (self._positions.direction[drawn][:, None] == labels).float() * self._live_share / len(drawn)
        return self.at(states, drawn).T @ share

    def _at_all(
        self, states: Float[Tensor, "nodes runs width"], own: Tensor, known: _Distributions | None
    ) -> Float[Tensor, "nodes runs"]:
        if known is None:
            return self._in_chunks(states, own)
        rows = max(1, _ROWS // states.shape[1])
        parts = [slice(start, start + rows) for start in range(0, len(states), rows)]
        return torch.cat([known.kl(self._model, part, states[part]) for part in parts]).float()

    def _in_chunks(
        self, states: Float[Tensor, "nodes runs width"], own: Float[Tensor, "nodes width"]
    ) -> Float[Tensor, "nodes runs"]:
        rows, readout = max(1, _ROWS // states.shape[1]), self._model.readout
        pairs = zip(states.split(rows), own.split(rows), strict=True)
        return torch.cat([divergence(readout(c), readout(s)) for s, c in pairs]).float()


@dataclass(frozen=True, slots=True)
class _Distributions:
    """What KL(p || q) takes from the distributions p, which are given by states.

    KL(p || q) is the mean of (logit of p - logit of q) under p, plus the difference of the normalisers. If logits are a
    linear function of the state, the mean is a product of the states' difference with the mean row of the output
    projection under p. That row has the width of a state, so it can be kept where the distribution itself could not.
    """

    states: Float[Tensor, "nodes width"]
    row: Float[Tensor, "nodes width"]
    normaliser: Float[Tensor, " nodes"]

    @staticmethod
    @torch.no_grad()
    def of(model: LanguageModel, states: Float[Tensor, "nodes width"]) -> _Distributions | None:
        """Compute it. None if the model's logits are not linear in the state."""
        rows, normalisers = [], []
        for part in states.split(_ROWS):
            logits = model.readout(part)
            row = model.mean_row(logits.softmax(-1))
            if row is None:
                return None
            rows.append(row)
            normalisers.append(logits.logsumexp(-1))
        return _Distributions(states, torch.cat(rows), torch.cat(normalisers))

    def kl(
        self, model: LanguageModel, nodes: slice, edited: Float[Tensor, "nodes runs width"]
    ) -> Float[Tensor, "nodes runs"]:
        """KL at some of the nodes."""
        change = self.states[nodes, None] - edited
        mean = (change * self.row[nodes, None]).sum(-1)
        return mean + model.readout(edited).logsumexp(-1) - self.normaliser[nodes, None]


class Positions:
    """The live nodes of a prefix tree. A live node is at or after an edit, so that its predictions can change."""

    def __init__(self, examples: Examples, device: torch.device) -> None:
        self._tree = examples.tree
        self._own = np.arange(len(self._tree.leaf)) < len(examples.pairs)
        self._text = [sentence.places for sentence in examples.kept if sentence.words is None]
        self._device = device

    @cached_property
    def weight(self) -> Float[Tensor, " live"]:
        """The weight of each live node in the mean over sentences of the mean over positions. The positions before the
        edit, including the first word, have zero KL and no weight here, so the sum is less than 1. If text must stay,
        its lines have all the weight, in equal parts."""
        return self._weight_here.to(self._device)

    @cached_property
    def weighted(self) -> Int[Tensor, " nodes"] | None:
        """The live nodes that have a weight; None for all."""
        nodes = self.weight.nonzero()[:, 0]
        return None if len(nodes) == len(self.weight) else nodes

    @cached_property
    def direction(self) -> Int[Tensor, " live"]:
        """The direction in which each live node is edited."""
        return torch.as_tensor(self._tree.direction[self._tree.live], device=self._device)

    @cached_property
    def after_edit(self) -> Float[Tensor, " live"]:
        """Like `weight`, for the positions from the first edit. These weights sum to 1."""
        tree = self._tree
        live_steps = tree.gathered(tree.live.astype(np.int64))[tree.leaf]
        return self._live(tree.spread(self._own / live_steps / self._own.sum())).to(self._device)

    @cached_property
    def live_share(self) -> float:
        """The share of positions at which an edit can have an effect."""
        return float(self._weight_here.sum())

    @cached_property
    def _weight_here(self) -> Float[Tensor, " live"]:
        """The weights on the CPU. Drawing from weights on a GPU would make every update wait for the GPU."""
        tree = self._tree
        if self._text:
            weight = np.zeros(len(tree.token))
            for places in self._text:
                np.add.at(weight, tree.leaf[places], 1 / len(places) / len(self._text))
        else:
            weight = tree.spread(self._own / (tree.lengths + 1) / self._own.sum())
        return self._live(weight)

    def draw(self, n: int, noise: torch.Generator) -> Int[Tensor, " nodes"]:
        """Random live nodes, drawn in proportion to `weight`."""
        drawn = torch.multinomial(self._weight_here, n, replacement=True, generator=noise)
        return drawn.to(self._device, non_blocking=True)

    def _live(self, per_node: np.ndarray) -> Float[Tensor, " live"]:
        return torch.as_tensor(per_node[self._tree.live], dtype=torch.float32)
