"""Rivals of an intervention: random sets of units as strong as it is, whose side effects are those of any edit."""

from __future__ import annotations

from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.evidence.controls import known_units
from pivotal.evidence.examination import Examination
from pivotal.problem.problem import Problem

_SETS, PREFIXES = 3, 48
"""The random sets with the KL of the intervention, and the prefixes on which they are applied."""


Rivals: TypeAlias = tuple[
    Float[Tensor, "sets directions units"], Float[Tensor, "sets directions coordinates"]
]
"""Masks and values of random sets of units with about the KL of an intervention."""


@torch.no_grad()
def rivals_of(examination: Examination, seed: int) -> Rivals:
    """Random units of the intervention's sites, but none of its own and none that is known for a feature of the
    question, each at a random end of its natural range: as many as give the KL nearest to that of the intervention."""
    sample, intervention = examination.problem.sample(PREFIXES), examination.intervention
    part = Problem(sample.model, sample.examples, sites=intervention.sites, steps=sample.steps)
    space, noise = part.space, torch.Generator().manual_seed(seed)
    low, high = part.natural_range()
    ends = torch.rand(_SETS, len(part.labels), space.coordinates, generator=noise).to(low.device) < 0.5
    own, values = {space.flat(unit) for unit in intervention.units}, torch.where(ends, low, high)
    left_out = own.union(known_units(part))
    others = torch.tensor([place for place in range(len(space)) if place not in left_out])
    wanted = part.untouched.mean(part.run_intervention(intervention).states)
    best, nearest = torch.zeros(_SETS, len(part.labels), len(space)), torch.full((_SETS,), torch.inf)
    orders = torch.stack([others[torch.randperm(len(others), generator=noise)] for _ in range(_SETS)])
    size = len(own)
    while size <= len(others):
        chosen = orders[:, None, :size].expand(-1, len(part.labels), -1)
        mask = torch.zeros_like(best).scatter(2, chosen, 1.0)
        kl = part.untouched.mean(part.run(mask.to(low.device), values).states)
        away = (kl / wanted).log().abs().cpu()
        better = away < nearest
        nearest, best = torch.where(better, away, nearest), torch.where(better[:, None, None], mask, best)
        if bool((kl > wanted).all()):
            break
        size *= 2
    return best.to(low.device), values
