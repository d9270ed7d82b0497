"""The next-word distributions of the untouched model, kept in the form that KL needs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.models.base import LanguageModel


@dataclass(frozen=True, slots=True)
class Untouched:
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
    def of(model: LanguageModel, states: Float[Tensor, "nodes width"], at_once: int) -> Untouched | None:
        """Compute it, `at_once` nodes at a time. None if the model's logits are not linear in the state."""
        rows, normalisers = [], []
        for part in states.split(at_once):
            logits = model.readout(part)
            row = model.mean_row(logits.softmax(-1))
            if row is None:
                return None
            rows.append(row)
            normalisers.append(logits.logsumexp(-1))
        return Untouched(states, torch.cat(rows), torch.cat(normalisers))

    def kl(
        self, model: LanguageModel, nodes: slice, edited: Float[Tensor, "nodes runs width"]
    ) -> Float[Tensor, "nodes runs"]:
        """KL(untouched || edited) at some of the nodes."""
        change = self.states[nodes, None] - edited
        mean = (change * self.row[nodes, None]).sum(-1)
        return mean + model.readout(edited).logsumexp(-1) - self.normaliser[nodes, None]
