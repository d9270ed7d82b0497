"""Downstream divergence: how far edited states lie from natural ones."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.models.tensors import distinct_rows
from pivotal.problem.problem import Problem
from pivotal.records.evidence import Divergence
from pivotal.records.intervention import Intervention

_PREFIXES = 512


@torch.no_grad()
def divergence_of(intervention: Intervention, problem: Problem) -> Divergence:
    """Compare the states from which the two words are predicted, before and after the edit."""
    part = problem.sample(_PREFIXES)
    leaves = torch.as_tensor(part.tree.live_row[part.tree.leaf], device=part.model.device).unique()
    clean = distinct_rows(part.tensors.clean[:, None], leaves)[:, 0].float()
    edited = distinct_rows(part.run_intervention(intervention).states, leaves)[:, 0].float()
    natural = _nearest(clean, clean).median()
    return Divergence(ratio=float(_nearest(edited, clean).median() / natural.clamp(min=1e-12)))


def _nearest(
    states: Float[Tensor, "rows width"], others: Float[Tensor, "rows width"]
) -> Float[Tensor, " rows"]:
    """The distance of each state to the nearest state of another row."""
    distance = torch.cdist(states, others)
    distance.fill_diagonal_(torch.inf)
    return distance.min(1).values
