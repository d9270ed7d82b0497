"""Random controls: the scores of random sets of units, matched in size and layer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.evidence.scores import score_masks
from pivotal.problem.objective import KL_TOLERANCE, Terms
from pivotal.problem.problem import Problem
from pivotal.records.intervention import Intervention
from pivotal.records.summary import Control
from pivotal.searches.tools.refit import Refit

_TOGETHER = 50
"""The most random sets whose values are fitted together on a CPU."""
_PREFIXES = 200
"""The held-out prefixes on which the sets are compared."""


def random_control(
    intervention: Intervention,
    problem: Problem,
    train: Problem,
    sets: int,
    terms: Terms,
    seed: int,
    *,
    accuracy: float | None = None,
    kl: float = 0.0,
) -> Control:
    """Compare the found set with random sets that have as many units in each site. p is the share of sets that do at
    least as well, including the found set.

    `accuracy` is the share of flips of the found set, by default measured here, and `kl` is its KL. If it keeps a bound
    on KL, a random set that exceeds the bound does not do as well. Otherwise the values of the random sets are fitted
    for flips alone, which makes them harder to beat.
    """
    part = problem.sample(_PREFIXES, seed)
    if accuracy is None:
        # In double precision, as below: a set that flips exactly as many must count.
        accuracy = float(part.run_intervention(intervention).flipped().double().mean())
    mask = matched_sets(intervention, problem, sets, seed)
    # Few large steps on few prefixes flip as much as many small steps, at a fifth of the cost.
    if terms.max_kl is not None and kl <= KL_TOLERANCE * terms.max_kl:
        most, refit = KL_TOLERANCE * terms.max_kl, Refit(terms=terms, updates=16, rate=0.2, batch=16, looks=4)
    else:
        flips = replace(terms, kl_weight=0.0, max_kl=None)
        most, refit = np.inf, Refit(terms=flips, updates=8, rate=0.5, batch=8, looks=1)
    shares, kls = np.zeros(sets), np.zeros(sets)
    at_once = _TOGETHER if mask.device.type == "cpu" else sets
    for some in torch.arange(sets, device=mask.device).split(at_once):
        values = refit.fit(train, mask[some], seed=seed).values
        which = some.cpu().numpy()  # numpy treats a tensor with one element as a number
        flipped, kls[which], _ = score_masks(mask[some], values, part, kl=most < np.inf)
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


def matched_sets(
    intervention: Intervention, problem: Problem, sets: int, seed: int
) -> Float[Tensor, "sets directions units"]:
    """Masks of random sets. Each unit of the intervention is replaced by a random unit of its site."""
    rng, space = np.random.default_rng(seed), problem.space
    mask = torch.zeros(sets, len(problem.labels), len(space))
    active = torch.tensor(intervention.active).float()
    for name in dict.fromkeys(unit.site for unit in intervention.units):
        here = [i for i, unit in enumerate(intervention.units) if unit.site == name]
        units = np.arange(len(space))[space.slice_of(name)]
        for row in mask:
            drawn = rng.choice(units, len(here), replace=False)
            row[:, drawn] = active[:, here]
    return mask.to(problem.model.device)
