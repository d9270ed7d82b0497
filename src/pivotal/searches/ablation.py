"""Ranking by single-unit ablation: replace each unit alone and measure the effect.

The method is that of Lakretz et al. (2019) and Vig et al. (2020). It cannot find units that have an
effect only together. This is the paper's objection to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pivotal.problem.batch import mean_of
from pivotal.problem.problem import Problem
from pivotal.records.certificate import Ablated
from pivotal.searches.base import require_least
from pivotal.searches.choose_then_fit import Ranked, Ranking
from pivotal.searches.tools import SetValues
from pivotal.units import Unit

Value = Literal["zero", "mean", "other-mean"]
Effect = Literal["log-ratio", "flips"]

_DROP = 0.10
_FEWEST = 20


@dataclass(frozen=True, slots=True)
class Effects:
    """The effect of replacing each unit alone, averaged over the pairs."""

    log_ratio: Float[Tensor, " units"]
    """The decrease of log p(d) / p(t) in nats. Positive is towards the flip."""
    flips: Float[Tensor, " units"]
    """The share of preferences that flip."""
    values: SetValues
    """The values that replaced each unit."""

    def by(self, effect: Effect) -> Float[Tensor, " units"]:
        """The effect to rank by. Few units flip a preference alone, so the log ratio breaks ties between flips."""
        if effect == "log-ratio":
            return self.log_ratio
        return self.flips + 1e-6 * self.log_ratio.tanh()

    def ranks(self, effect: Effect = "log-ratio") -> Int[Tensor, " units"]:
        """The rank of each unit. The unit with the largest effect has rank 1."""
        return self.by(effect).argsort(descending=True, stable=True).argsort() + 1


def ablate(
    problem: Problem,
    values: SetValues,
    *,
    units: Sequence[int] | None = None,
    tell: Callable[[float], None] | None = None,
) -> Float[Tensor, "chosen examples"]:
    """log p(d) / p(t) of every example when each unit (by default every unit) is replaced alone. Units are the runs."""
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


def values_of(problem: Problem, value: Value) -> SetValues:
    """Zero, the mean activation over both labels, or the mean where the model prefers the target label."""
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
    """The effect of every unit alone on a sample of `prefixes` distinct prefixes; 0 uses all."""
    sample = problem.sample(prefixes, seed)
    values = values_of(problem, value)
    log_ratio = ablate(sample, values, tell=tell)
    return Effects(
        log_ratio=mean_of(sample.clean_log_ratio - log_ratio, sample.tensors.weight),
        flips=mean_of((log_ratio < 0).float(), sample.tensors.weight),
        values=values,
    )


@dataclass(frozen=True)
class Ablation(Ranking):
    """Replace each unit alone, rank the units by the effect, and take the first k."""

    name: ClassVar[str] = "ablation"
    summary: ClassVar[str] = "single-unit ablation: units ranked by their effect alone, values refitted"

    value: Value = "other-mean"
    """The replacement of a unit: zero, its mean, or its mean where the model prefers the target label."""
    effect: Effect = "log-ratio"
    """Rank by the mean change of the log ratio, or by the share of preferences that flip."""
    prefixes: int = 48
    """Distinct prefixes on which effects are measured; each run draws its own. 0 uses all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_least(self, prefixes=0)

    def rank(self, problem: Problem, seed: int, tell: Callable[[float], None]) -> Ranked:
        found = ablation_ranks(problem, self.value, prefixes=self.prefixes, seed=seed, tell=tell)
        return found.by(self.effect), found.values


def found_by_ablation(
    units: Sequence[Unit], problem: Problem, *, prefixes: int = 24, seed: int = 0
) -> tuple[Ablated, ...]:
    """Whether single-unit ablation would have found each of these units, as in the paper's table of units.

    The ablation follows Lakretz et al.: one unit is set to zero at every step, whatever the steps of the intervention.
    (In their code the second layer still reads the unedited first layer. Here it reads the edited one.)

    The criterion is theirs too: ablation finds a unit if the accuracy drops by more than 10 points in some condition. A
    condition is a construction and a number (group and label) with 20 pairs or more, or all pairs. Accuracy is the
    share of pairs whose expected word is preferred; a tie counts one half. If a pair has no expected word, the word
    that the untouched model prefers takes its place. Drops are measured on all pairs, ranks on `prefixes` prefixes.
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
