"""Random controls: the scores of random sets of units, matched in size and layer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.evidence.scores import costs_of, score_masks
from pivotal.models.edits import dense
from pivotal.problem.objective import TOLERANCE, Terms
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
    excess: float | None = None,
) -> Control:
    """Compare the found set with random sets that have as many units in each site. p is the share of sets that do at
    least as well, including the found set.

    `accuracy` is the share of flips of the found set and `excess` its largest cost as a multiple of the bound on it, by
    default measured here. If the found set keeps its bounds, a random set that exceeds one does not do as well.
    Otherwise the values of the random sets are fitted for flips alone, which makes them harder to beat.
    """
    part = problem.sample(_PREFIXES, seed)
    if accuracy is None:
        # In double precision, as below: a set that flips exactly as many must count.
        accuracy = float(part.run_intervention(intervention).flipped().double().mean())
    mask = matched_sets(intervention, problem, sets, seed)
    # What must stay is part of the training problem only.
    judges = part if train.kept is None else train.sample(_PREFIXES, seed)

    def excess_of(mask: Tensor, values: Tensor) -> np.ndarray:
        return terms.excess(judges, costs_of(mask, values, judges, terms)).cpu().numpy()

    if excess is None and terms.bounded:
        excess = float(excess_of(*dense(intervention, judges.space, mask.device))[0])
    bounded = terms.bounded and excess is not None and excess <= TOLERANCE
    # Few large steps on few prefixes flip as much as many small steps, at a fifth of the cost.
    if bounded:
        refit = Refit(terms=terms, updates=16, rate=0.2, batch=16, looks=4)
    else:
        flips = replace(terms, kl_weight=0.0, max_kl=None, max_change=None)
        refit = Refit(terms=flips, updates=8, rate=0.5, batch=8, looks=1)
    shares, broken = np.zeros(sets), np.zeros(sets, dtype=bool)
    at_once = _TOGETHER if mask.device.type == "cpu" else sets
    for some in torch.arange(sets, device=mask.device).split(at_once):
        values = refit.fit(train, mask[some], seed=seed).values
        which = some.cpu().numpy()  # numpy treats a tensor with one element as a number
        shares[which] = score_masks(mask[some], values, part, kl=False)[0].mean(1)
        if bounded:
            broken[which] = excess_of(mask[some], values) > TOLERANCE
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
