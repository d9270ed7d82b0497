"""What an intervention is to achieve: flip the preference, and leave everything else alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pivotal.problem.problem import Outcome, Problem

Objective = Literal["soft-margin", "ratio"]

_LARGEST = 60.0
"""exp of more than this leaves float32's comfortable range; such an example is lost either way."""


def loss_of(
    objective: Objective, log_ratio: Float[Tensor, "runs examples"], margin: float
) -> Float[Tensor, "runs examples"]:
    """`ratio` is the paper's p(d) / p(t). Its gradient is owned by the few worst sentences, since it grows
    exponentially with their margin; `soft-margin`, log(1 + exp(margin + log ratio)), grows linearly instead."""
    if objective == "ratio":
        return log_ratio.clamp(max=_LARGEST).exp()
    return torch.nn.functional.softplus(log_ratio + margin)


KL_TOLERANCE = 1.1
"""Held-out pairs are not those that the bound on KL was kept on: so many times the bound still counts as kept."""


@dataclass(frozen=True)
class Terms:
    """The loss of a masked run, and its KL to the untouched model where somebody asks for it."""

    objective: Objective = "soft-margin"
    margin: float = 1.0
    kl_weight: float = 0.0
    max_kl: float | None = None
    kl_nodes: int = 48
    """Positions at which KL is looked at in each update."""

    @property
    def wants_kl(self) -> bool:
        return self.kl_weight > 0 or self.max_kl is not None

    @property
    def first_price(self) -> float:
        """What a unit of KL is taken to cost, in units of the loss, before a fit has found out: to use up the bound is
        as bad as half a nat."""
        return self.kl_weight + (0.0 if self.max_kl is None else 0.5 / self.max_kl)

    def loss(self, outcome: Outcome) -> Float[Tensor, " runs"]:
        return loss_of(self.objective, outcome.log_ratio, self.margin).mean(1)

    def score(self, loss: Float[Tensor, " runs"], kl: Float[Tensor, " runs"]) -> Float[Tensor, " runs"]:
        """A number to choose by, less is better: what breaks the KL bound comes behind all that keeps it."""
        score = loss + self.kl_weight * kl
        return score if self.max_kl is None else torch.where(kl <= self.max_kl, score, 1e6 * kl / self.max_kl)

    def draw(
        self, problem: Problem, noise: torch.Generator, nodes: int | None = None
    ) -> Int[Tensor, " nodes"] | None:
        """Positions at which to look at KL; None where nobody asks for it. Drawn apart from `kl`, so that a pass can be
        gone through again with the same."""
        return problem.draw_positions(nodes or self.kl_nodes, noise) if self.wants_kl else None

    def kl(self, problem: Problem, outcome: Outcome, drawn: Int[Tensor, " nodes"]) -> Float[Tensor, " runs"]:
        """Mean KL over all positions, estimated at those that were drawn."""
        return problem.kl(outcome.states, drawn).mean(0) * problem.live_share
