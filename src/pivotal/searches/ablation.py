"""Ranking by single-unit ablation: replace each unit alone and see what happens (Lakretz et al. 2019, Vig et al. 2020).

What it cannot see are units that act together only: this is what the paper holds against it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pivotal.problem.problem import Problem
from pivotal.records.ablation import Ablated
from pivotal.searches.base import require_least
from pivotal.searches.selection import Ranked, Ranking
from pivotal.units import Unit

Value = Literal["zero", "mean", "other-mean"]
Effect = Literal["log-ratio", "flips"]

_DROP = 0.10
_FEWEST = 20
_FEWEST_PREFIXES = 8


@dataclass(frozen=True, slots=True)
class Effects:
    """What replacing each unit alone does, on average over the pairs."""

    log_ratio: Float[Tensor, " units"]
    """How far log p(d) / p(t) falls, in nats: towards the flip is positive."""
    flips: Float[Tensor, " units"]
    """The share of preferences that it flips."""
    values: Float[Tensor, "directions coordinates"]
    """What each unit was replaced by."""

    def by(self, effect: Effect) -> Float[Tensor, " units"]:
        """A number to rank by. Few units flip anything alone: among those with as many flips the log ratio decides."""
        if effect == "log-ratio":
            return self.log_ratio
        return self.flips + 1e-6 * self.log_ratio.tanh()

    def ranks(self, effect: Effect = "log-ratio") -> Int[Tensor, " units"]:
        """Each unit's place, from 1, the largest effect."""
        return self.by(effect).argsort(descending=True, stable=True).argsort() + 1


def ablate(
    problem: Problem,
    values: Float[Tensor, "directions coordinates"],
    *,
    units: Sequence[int] | None = None,
    tell: Callable[[float], None] | None = None,
) -> Float[Tensor, "chosen examples"]:
    """log p(d) / p(t) of every example with each unit (all by default) replaced alone by its value: units are the
    runs."""
    chosen = torch.as_tensor(
        range(len(problem.space)) if units is None else units, device=problem.model.device
    )
    at_once = problem.runs_at_once()
    found = []
    for done, some in enumerate(chosen.split(at_once)):
        mask = torch.zeros(len(some), len(problem.space), device=values.device)
        mask.scatter_(1, some[:, None], 1.0)
        with torch.no_grad():
            found.append(problem.run(mask, values.expand(len(some), -1, -1)).log_ratio)
        if tell is not None:
            tell(min(1.0, (done + 1) * at_once / len(chosen)))
    return torch.cat(found)


def values_of(problem: Problem, value: Value) -> Float[Tensor, "directions coordinates"]:
    """Zero, the mean over both labels, or the mean where the model prefers the label that we flip to."""
    seen = problem.measure_activations()
    if value == "zero":
        return torch.zeros_like(seen.target)
    if value == "mean":
        return seen.target.mean(0, keepdim=True).expand_as(seen.target).contiguous()
    return seen.target


def ablation_ranks(
    problem: Problem,
    value: Value = "other-mean",
    *,
    prefixes: int = 48,
    seed: int = 0,
    tell: Callable[[float], None] | None = None,
) -> Effects:
    """The effect of every unit alone, on a sample of so many distinct prefixes (0: all)."""
    sample = problem.sample(prefixes, seed)
    values = values_of(problem, value)
    log_ratio = ablate(sample, values, tell=tell)
    return Effects(
        log_ratio=(sample.clean_log_ratio - log_ratio).mean(1),
        flips=(log_ratio < 0).float().mean(1),
        values=values,
    )


@dataclass(frozen=True)
class Ablation(Ranking):
    """Replace each unit alone, rank the units by what that does, and take the k best."""

    name: ClassVar[str] = "ablation"
    summary: ClassVar[str] = "each unit replaced alone and ranked by its effect; the best, values refitted"

    value: Value = "other-mean"
    """What a unit is replaced by: zero, its mean, or its mean where the model prefers the label that we flip to."""
    effect: Effect = "log-ratio"
    """Rank by the mean change of the log ratio, or by the share of preferences that flip."""
    prefixes: int = 48
    """Distinct prefixes on which the units are tried; each run draws its own. 0 takes all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_least(self, prefixes=0)

    def rank(self, problem: Problem, seed: int, tell: Callable[[float], None]) -> Ranked:
        found = ablation_ranks(problem, self.value, prefixes=self.prefixes, seed=seed, tell=tell)
        return found.by(self.effect), found.values

    def within(self, problem: Problem, runs: int, nodes: int) -> Ablation:
        """The number of prefixes is what gives."""
        most = len(np.unique(problem.tree.leaf))
        left = (nodes - self.concluding(problem, runs)) / runs / len(problem.space)
        prefixes = _FEWEST_PREFIXES
        # Prefixes share their beginnings, so that twice as many have less than twice the nodes.
        while prefixes < most and problem.sample(2 * prefixes).tree.n_live <= left:
            prefixes *= 2
        prefixes = int(prefixes * left / problem.sample(prefixes).tree.n_live)
        return replace(self, prefixes=min(most, max(_FEWEST_PREFIXES, prefixes)))


def found_by_ablation(
    units: Sequence[Unit], problem: Problem, *, prefixes: int = 24, seed: int = 0
) -> tuple[Ablated, ...]:
    """Which of these units single-unit ablation would have found, as the paper's table of units asks.

    The ablation is Lakretz et al.'s: one unit is set to zero at every step, whatever the steps of the intervention. (In
    theirs the first layer still feeds the second; here an edit is in-stream, as everywhere.) So is the yardstick, a
    drop of 10 points: a unit is found if the model then loses more than 10 points of its accuracy in some condition, a
    condition being a construction with a number (group and label) of 20 pairs or more, or all pairs together. Accuracy
    is the share of pairs whose expected word is preferred, a tie counting half; where pairs do not say which that is,
    of those whose word is the untouched model's. Drops are taken on all pairs of the problem, ranks among all
    units on a sample of `prefixes`.
    """
    every = Problem(problem.model, problem.pairs, sites=problem.sites, steps="every")
    flats = [every.space.flat(unit) for unit in units]
    effects = ablation_ranks(every, "zero", prefixes=prefixes, seed=seed)
    ranks = effects.ranks()
    before = _right(every, every.clean_log_ratio[None])
    after = _right(every, ablate(every, values_of(every, "zero"), units=flats))
    conditions = _conditions(every)
    rows = []
    for unit, flat, right in zip(units, flats, after, strict=True):
        drops = {name: float((before[0] - right)[of].mean()) for name, of in conditions.items()}
        worst = max(drops, key=lambda name: drops[name])
        rows.append(
            Ablated(
                unit=str(unit),
                rank=int(ranks[flat]),
                effect=float(effects.log_ratio[flat]),
                drop=drops[worst],
                condition=worst,
                found=drops[worst] > _DROP,
            )
        )
    return tuple(rows)


def _right(problem: Problem, log_ratio: Float[Tensor, "runs examples"]) -> np.ndarray:
    """1 where the expected word is preferred, 1/2 at a tie."""
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
