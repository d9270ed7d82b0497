"""`@probe`: the direction of a linear probe of the label, completed to an orthonormal basis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.models.bases import Basis
from pivotal.models.bases.fit import completed
from pivotal.problem.bases.base import BasisKind
from pivotal.problem.bases.pca import training_states
from pivotal.units import InBasis

if TYPE_CHECKING:
    from pivotal.problem.problem import Problem

_RIDGE = 1e-2
"""The weight of the squared norm of the direction, for states scaled to a mean square of 1."""


class Probe(BasisKind):
    """Coordinate 0 is the direction of a linear probe; the others are principal components of the rest."""

    name: ClassVar[str] = "probe"
    summary: ClassVar[str] = (
        "coordinate 0 is the direction of a linear probe of the label at the edited steps, the others complete it"
    )

    def make(self, asked: InBasis, problem: Problem) -> Basis:
        states = training_states(problem)
        return completed(self.name, probe_of(states)[None], torch.cat(states))


def probe_of(states: Sequence[Float[Tensor, "_ width"]]) -> Float[Tensor, " width"]:
    """The unit vector of a logistic regression with a ridge penalty that tells the states of two labels apart. Both
    labels have the same weight."""
    first, second = (rows.double() for rows in states)
    if not len(first) or not len(second):
        raise PivotalError(
            "A probe tells the states of two labels apart, but the training pairs have only one of them. Use pairs of "
            "both labels."
        )
    mean = (first.mean(0) + second.mean(0)) / 2
    scale = torch.cat([first, second]).sub(mean).square().mean().sqrt().clamp(min=1e-12)
    a, b = (first - mean) / scale, (second - mean) / scale
    weight = torch.zeros(a.shape[1], dtype=torch.float64, device=a.device, requires_grad=True)
    offset = torch.zeros((), dtype=torch.float64, device=a.device, requires_grad=True)
    optimiser = torch.optim.LBFGS([weight, offset], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        wrong = [torch.nn.functional.softplus(sign * (x @ weight + offset)) for sign, x in ((1, a), (-1, b))]
        total = wrong[0].mean() + wrong[1].mean() + _RIDGE * weight.square().sum()
        total.backward()
        return total

    with torch.enable_grad():
        optimiser.step(loss)
    return (weight.detach() / weight.detach().norm().clamp(min=1e-12)).float()
