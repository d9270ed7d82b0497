"""Dose and response: the effect of a part of the edit."""

from __future__ import annotations

import numpy as np
import torch

from pivotal.models.edits import dense
from pivotal.problem.problem import Problem
from pivotal.records.evidence import Dose
from pivotal.records.intervention import Intervention

DOSES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
_PREFIXES, _POSITIONS = 256, 256
"""The held-out prefixes and the positions of KL that are used."""


@torch.no_grad()
def dose_response(intervention: Intervention, problem: Problem) -> Dose:
    """Apply parts of an intervention. The edit is linear in the mask, so the mask is the dose."""
    part = problem.sample(_PREFIXES)
    mask, values = dense(intervention, part.space, part.model.device)
    log_ratio, kl = [], []
    share = part.positions.live_share
    positions = part.positions.draw(_POSITIONS, torch.Generator().manual_seed(0))
    # Only dose 1 may skip sites by its mask; the doses are run one by one to bound memory.
    for dose in DOSES:
        outcome = part.run(dose * mask, values) if dose else None
        log_ratio.append(part.clean_log_ratio if outcome is None else outcome.log_ratio[0])
        drawn = 0.0 if outcome is None else float(part.kl(outcome.states, positions).mean()) * share
        kl.append(drawn)
    odds = -torch.stack(log_ratio).cpu().numpy()
    flips = (odds > 0).mean(1)
    flips[0] = 0.0  # by definition: the target is the word that the untouched model does not prefer
    upward = np.diff(odds[: DOSES.index(1.0) + 1], axis=0) > 0
    return Dose(
        doses=DOSES,
        flip_accuracy=tuple(flips.tolist()),
        kl=tuple(kl),
        half=_crossing(np.array(DOSES), flips, 0.5),
        monotone=float(upward.all(0).mean()),
        wrong_way=float((odds[DOSES.index(1.0)] < odds[0]).mean()),
    )


def _crossing(x: np.ndarray, y: np.ndarray, level: float) -> float | None:
    """The first x at which y reaches the level, between two points by interpolation."""
    above = np.flatnonzero(y >= level)
    if not len(above):
        return None
    i = int(above[0])
    if i == 0:
        return float(x[0])
    return float(x[i - 1] + (level - y[i - 1]) / (y[i] - y[i - 1]) * (x[i] - x[i - 1]))
