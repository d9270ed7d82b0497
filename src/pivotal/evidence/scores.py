"""Flips and KL of many interventions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.models.edits import dense
from pivotal.problem.objective import Terms
from pivotal.problem.problem import Problem
from pivotal.records.intervention import Intervention


@torch.no_grad()
def score_many(
    interventions: Sequence[Intervention], problem: Problem
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Flips (interventions x examples), KL over all positions, and KL after the edit.

    The interventions are processed in chunks, because the masks of a thousand interventions can take gigabytes.
    """
    at_once, parts = problem.runs_at_once(), []
    for start in range(0, len(interventions), at_once):
        some = interventions[start : start + at_once]
        pairs = [dense(i, problem.space, problem.model.device) for i in some]
        mask, values = (torch.cat(tensors) for tensors in zip(*pairs, strict=True))
        parts.append(score_masks(mask, values, problem))
    flips, kl, after = (np.concatenate(part) for part in zip(*parts, strict=True))
    return flips, kl, after


@torch.no_grad()
def costs_of(
    mask: Float[Tensor, "runs directions units"],
    values: Float[Tensor, "runs directions coordinates"],
    problem: Problem,
    terms: Terms,
) -> Float[Tensor, "runs bounds"]:
    """What `terms` bounds: KL and the changes of kept questions."""
    at_once = problem.runs_at_once()
    parts = zip(mask.split(at_once), values.split(at_once), strict=True)
    return torch.cat([terms.costs(problem, problem.run(m, v)) for m, v in parts])


@torch.no_grad()
def score_masks(
    mask: Float[Tensor, "runs directions units"],
    values: Float[Tensor, "runs directions coordinates"],
    problem: Problem,
    *,
    kl: bool = True,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Like `score_many`, for masks and values as tensors. Without `kl` both KLs are NaN."""
    at_once = problem.runs_at_once()
    flips, kls, afters = [], [], []
    for m, v in zip(mask.split(at_once), values.split(at_once), strict=True):
        outcome = problem.run(m, v)
        flips.append(outcome.flipped().cpu().numpy())
        if kl:
            each = problem.kl(outcome.states)
            kls.append((problem.positions.weight @ each).cpu().numpy())
            afters.append((problem.positions.after_edit @ each).cpu().numpy())
    empty = np.full(len(mask), np.nan)
    return (
        np.concatenate(flips),
        np.concatenate(kls) if kl else empty,
        np.concatenate(afters) if kl else empty,
    )
