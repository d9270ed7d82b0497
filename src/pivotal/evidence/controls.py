"""Random controls: the scores of random sets of units."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from pivotal.evidence.scores import score_masks
from pivotal.models.edits import by_first_site
from pivotal.problem.objective import KL_TOLERANCE, Terms
from pivotal.problem.problem import Problem
from pivotal.records.intervention import Intervention
from pivotal.records.summary import Control
from pivotal.searches.tools.refit import Refit

_TOGETHER = 4
"""Number of random sets whose values are fitted together on a CPU. A group runs from its first edited layer, so small
groups save work for sets that start late in a deep model."""


def random_control(
    intervention: Intervention,
    accuracy: float,
    problem: Problem,
    train: Problem,
    sets: int,
    terms: Terms,
    seed: int,
    *,
    kl: float = 0.0,
) -> Control:
    """Compare the found set with random sets. p is the share of sets that do at least as well, including the found set.

    `accuracy` and `kl` are those of the found set. If it keeps a bound on KL, a random set that exceeds the bound does
    not do as well. Otherwise the values of the random sets are fitted for flips alone, which makes them harder to beat.
    """
    rng = np.random.default_rng(seed)
    units = len(problem.space)
    mask = torch.zeros(sets, len(problem.labels), units)
    for row in mask:
        row[:, rng.choice(units, len(intervention), replace=False)] = torch.tensor(
            intervention.active
        ).float()
    mask = mask.to(problem.model.device)
    if terms.max_kl is not None and kl <= KL_TOLERANCE * terms.max_kl:
        most, refit = KL_TOLERANCE * terms.max_kl, Refit(terms=terms, updates=40, batch=32)
    else:
        # Without a bound, large steps on few prefixes flip as much at a third of the cost.
        flips = replace(terms, kl_weight=0.0, max_kl=None)
        most, refit = np.inf, Refit(terms=flips, updates=32, rate=0.1, batch=12, looks=2)
    shares, kls = np.zeros(sets), np.zeros(sets)
    at_once = _TOGETHER if mask.device.type == "cpu" else sets
    for some in by_first_site(problem.space, mask, at_once):
        values = refit.fit(train, mask[some], seed=seed).values
        which = some.cpu().numpy()  # numpy treats a tensor with one element as a number
        flipped, kls[which], _ = score_masks(mask[some], values, problem, kl=most < np.inf)
        shares[which] = flipped.mean(1)
    broken = kls > most
    return Control(
        sets=sets,
        flip_accuracy=[float(s) for s in shares],
        mean=float(shares.mean()),
        best=float(shares.max()),
        p_value=float((1 + ((shares >= accuracy) & ~broken).sum()) / (1 + sets)),
        broken=int(broken.sum()),
    )
