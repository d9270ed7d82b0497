"""KL of the next-word distributions of an edited model to those of the untouched model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pivotal.models.base import LanguageModel

_ROWS = 512
"""Maximum rows of the vocabulary-wide softmax in memory."""


def divergence(
    untouched: Float[Tensor, "nodes vocabulary"], edited: Float[Tensor, "nodes runs vocabulary"]
) -> Float[Tensor, "nodes runs"]:
    """KL(untouched || edited) of two distributions given by their logits.

    The sum over the vocabulary is a sum of differences. Logits of transformers are in the tens, and a sum of 50,000
    logits in float32 has an error of several thousandths, as large as the KL of a small edit.
    """
    p = untouched.softmax(-1)
    lower = torch.einsum("nrv,nv->nr", untouched[:, None] - edited, p)
    return lower + edited.logsumexp(-1) - untouched.logsumexp(-1)[:, None]


class Divergence:
    """KL to the untouched model, whose states are `clean`, at the nodes of a prefix tree."""

    def __init__(self, model: LanguageModel, clean: Float[Tensor, "nodes width"]) -> None:
        self._model, self._clean = model, clean

    @cached_property
    def _untouched(self) -> _Untouched | None:
        """The untouched model's distributions at all nodes. A search compares many masks with them."""
        return _Untouched.of(self._model, self._clean)

    def at_all(self, states: Float[Tensor, "live runs width"]) -> Float[Tensor, "live runs"]:
        """KL at all nodes, in chunks."""
        if self._untouched is None:
            return self._in_chunks(states, self._clean)
        rows = max(1, _ROWS // states.shape[1])
        parts = [slice(start, start + rows) for start in range(0, len(states), rows)]
        return torch.cat([self._untouched.kl(self._model, part, states[part]) for part in parts]).float()

    def at(
        self, states: Float[Tensor, "live runs width"], nodes: Int[Tensor, " nodes"]
    ) -> Float[Tensor, "nodes runs"]:
        """KL at some nodes, in chunks."""
        return self._in_chunks(states[nodes], self._clean[nodes])

    def _in_chunks(
        self, states: Float[Tensor, "nodes runs width"], clean: Float[Tensor, "nodes width"]
    ) -> Float[Tensor, "nodes runs"]:
        rows, readout = max(1, _ROWS // states.shape[1]), self._model.readout
        pairs = zip(states.split(rows), clean.split(rows), strict=True)
        return torch.cat([divergence(readout(c), readout(s)) for s, c in pairs]).float()


@dataclass(frozen=True, slots=True)
class _Untouched:
    """What the KL to the untouched model takes from it.

    KL(p || q) is the mean of (logit of p - logit of q) under p, plus the difference of the normalisers. If logits are a
    linear function of the state, the mean is a product of the states' difference with the mean row of the output
    projection under p. That row has the width of a state, so it can be kept where the distribution itself could not.
    """

    states: Float[Tensor, "nodes width"]
    row: Float[Tensor, "nodes width"]
    normaliser: Float[Tensor, " nodes"]

    @staticmethod
    @torch.no_grad()
    def of(model: LanguageModel, states: Float[Tensor, "nodes width"]) -> _Untouched | None:
        """Compute it. None if the model's logits are not linear in the state."""
        rows, normalisers = [], []
        for part in states.split(_ROWS):
            logits = model.readout(part)
            row = model.mean_row(logits.softmax(-1))
            if row is None:
                return None
            rows.append(row)
            normalisers.append(logits.logsumexp(-1))
        return _Untouched(states, torch.cat(rows), torch.cat(normalisers))

    def kl(
        self, model: LanguageModel, nodes: slice, edited: Float[Tensor, "nodes runs width"]
    ) -> Float[Tensor, "nodes runs"]:
        """KL(untouched || edited) at some of the nodes."""
        change = self.states[nodes, None] - edited
        mean = (change * self.row[nodes, None]).sum(-1)
        return mean + model.readout(edited).logsumexp(-1) - self.normaliser[nodes, None]
