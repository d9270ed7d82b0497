"""The loss: an intervention should flip the preference and change nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pivotal.problem.outcome import Outcome
from pivotal.problem.problem import Problem

Objective = Literal["soft-margin", "ratio"]

_LARGEST = 60.0
"""The largest log ratio that is exponentiated, to stay well within the range of float32."""


def loss_of(
    objective: Objective, log_ratio: Float[Tensor, "runs examples"], margin: float
) -> Float[Tensor, "runs examples"]:
    """The loss of each example. `ratio` is the paper's p(d) / p(t). It grows exponentially with the log ratio, so the
    few worst sentences dominate its gradient. `soft-margin`, log(1 + exp(margin + log ratio)), grows linearly."""
    if objective == "ratio":
        return log_ratio.clamp(max=_LARGEST).exp()
    return torch.nn.functional.softplus(log_ratio + margin)


KL_TOLERANCE = 1.1
"""KL up to this multiple of its bound counts as kept, because the bound was enforced on other pairs."""


@dataclass(frozen=True)
class Terms:
    """The loss of a masked run, with an optional weight of KL to the untouched model and a bound on it."""

    objective: Objective = "soft-margin"
    margin: float = 1.0
    kl_weight: float = 0.0
    max_kl: float | None = None
    kl_nodes: int = 48
    """Number of positions at which each update measures KL."""

    @property
    def wants_kl(self) -> bool:
        return self.kl_weight > 0 or self.max_kl is not None

    @property
    def first_price(self) -> float:
        """The price of one nat of KL in units of the loss, before a fit has measured it. A KL at the bound costs as
        much as half a nat of the loss."""
        return self.kl_weight + (0.0 if self.max_kl is None else 0.5 / self.max_kl)

    def loss(self, outcome: Outcome) -> Float[Tensor, " runs"]:
        return loss_of(self.objective, outcome.log_ratio, self.margin).mean(1)

    def score(self, loss: Float[Tensor, " runs"], kl: Float[Tensor, " runs"]) -> Float[Tensor, " runs"]:
        """The score of each run; lower is better. Runs that exceed the KL bound rank after all runs that keep it."""
        score = loss + self.kl_weight * kl
        return score if self.max_kl is None else torch.where(kl <= self.max_kl, score, 1e6 * kl / self.max_kl)

    def draw(
        self, problem: Problem, noise: torch.Generator, nodes: int | None = None
    ) -> Int[Tensor, " nodes"] | None:
        """Random positions at which to measure KL, or None if KL is not used. They are drawn outside of `kl`, so that a
        repeated pass can use the same positions."""
        return problem.positions.draw(nodes or self.kl_nodes, noise) if self.wants_kl else None

    def kl(self, problem: Problem, outcome: Outcome, drawn: Int[Tensor, " nodes"]) -> Float[Tensor, " runs"]:
        """The mean KL over all positions, estimated at the drawn positions."""
        return problem.kl(outcome.states, drawn).mean(0) * problem.positions.live_share
