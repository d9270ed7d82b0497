"""Single-unit ablation, the common way to find units: set each unit to zero alone and measure the effect.

The method is that of Lakretz et al. (2019) and Vig et al. (2020). It cannot find units that have an
effect only together. This is the paper's objection to it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.problem.batch import mean_of
from pivotal.problem.problem import Problem
from pivotal.records.certificate import Ablated
from pivotal.units import Unit

_DROP = 0.10
_FEWEST = 20
_RANKED = 24
"""The number of distinct prefixes on which units are ranked."""


def ablated(problem: Problem, units: Sequence[int]) -> Float[Tensor, "units examples"]:
    """log p(d) / p(t) of every example when each unit is set to zero alone. Units are the runs of masked passes."""
    device, space = problem.model.device, problem.space
    found = []
    for some in torch.as_tensor(units, device=device).split(problem.runs_at_once()):
        mask = torch.zeros(len(some), len(space), device=device).scatter_(1, some[:, None], 1.0)
        values = torch.zeros(1, len(problem.labels), space.coordinates, device=device)
        with torch.no_grad():
            found.append(problem.run(mask, values.expand(len(some), -1, -1)).log_ratio)
    return torch.cat(found)


def effects_of(problem: Problem) -> Float[Tensor, " units"]:
    """The effect of every unit alone: the mean decrease of log p(d) / p(t) in nats. Positive is towards the flip."""
    fall = problem.clean_log_ratio - ablated(problem, range(len(problem.space)))
    return mean_of(fall, problem.tensors.weight)


def found_by_ablation(units: Sequence[Unit], problem: Problem) -> tuple[Ablated, ...]:
    """Whether single-unit ablation would have found each of these units, as in the paper's table of units.

    The ablation follows Lakretz et al.: one unit is set to zero at every step, whatever the steps of the intervention.
    (In their code the second layer still reads the unedited first layer. Here it reads the edited one.)

    The criterion is theirs too: ablation finds a unit if the accuracy drops by more than 10 points in some condition. A
    condition is a construction and a number (group and label) with 20 pairs or more, or all pairs. Accuracy is the
    share of pairs whose expected word is preferred; a tie counts one half. If a pair has no expected word, the word
    that the untouched model prefers takes its place. Drops are measured on all pairs, ranks on a sample of them.
    """
    every = Problem(problem.model, problem.pairs, sites=problem.sites, steps="every")
    flats = [every.space.flat(unit) for unit in units]
    effects = effects_of(every.sample(_RANKED))
    ranks = effects.argsort(descending=True, stable=True).argsort() + 1
    before = _right(every, every.clean_log_ratio[None])
    after = _right(every, ablated(every, flats))
    conditions = _conditions(every)
    rows = []
    for unit, flat, right in zip(units, flats, after, strict=True):
        drops = {name: float((before[0] - right)[of].mean()) for name, of in conditions.items()}
        worst = max(drops, key=lambda name: drops[name])
        rows.append(
            Ablated(
                unit=str(unit),
                rank=int(ranks[flat]),
                effect=float(effects[flat]),
                drop=drops[worst],
                condition=worst,
                found=drops[worst] > _DROP,
            )
        )
    return tuple(rows)


def _right(problem: Problem, log_ratio: Float[Tensor, "runs examples"]) -> np.ndarray:
    """1 where the model prefers the expected word, 1/2 at a tie."""
    keeps = ((log_ratio.sign() + 1) / 2).cpu().numpy()
    expected = np.array([pair.label for pair in problem.pairs])
    target = np.array(problem.labels)[problem.direction]
    return np.where(expected == target, 1 - keeps, keeps)


def _conditions(problem: Problem) -> dict[str, np.ndarray]:
    named = np.array([f"{pair.group} {pair.label}".strip() for pair in problem.pairs])
    found = {"all pairs": np.ones(len(named), dtype=bool)}
    for name in sorted({str(name) for name in named} - {""}):
        if (named == name).sum() >= _FEWEST:
            found[name] = named == name
    return found
