"""`@pca` and `@probe`: bases fitted to the states of training pairs at the edited steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.models.bases import Basis
from pivotal.models.bases.basis import completed, pca
from pivotal.models.bases.files import read_folder
from pivotal.problem.activations import states_to_edit
from pivotal.problem.bases import BasisKind
from pivotal.units import InBasis

if TYPE_CHECKING:
    from pivotal.problem.problem import Problem

_PREFIXES = 2048
"""The most prefixes whose states are used."""
_RIDGE = 1e-2
"""The weight of the squared norm of a probe's direction, for states scaled to a mean square of 1."""


def training_states(problem: Problem) -> list[Tensor]:
    """The states of the problem's site at the edited steps, for each direction."""
    part = problem.sample(_PREFIXES)
    problem.work.forward += part.tree.n_live
    return states_to_edit(part.model, part.tree, part.space, len(part.labels))


class PCA(BasisKind):
    """Principal components by falling variance."""

    name: ClassVar[str] = "pca"
    summary: ClassVar[str] = (
        "principal components of the states at the edited steps; @pca:FOLDER reads those of `fit-basis`"
    )

    def read(self, wanted: InBasis) -> Basis | None:
        return read_folder(wanted.argument, wanted.site.name) if wanted.argument else None

    def fit(self, wanted: InBasis, problem: Problem) -> Basis:
        return pca(torch.cat(training_states(problem)))


class Probe(BasisKind):
    """Coordinate 0 is the direction of a linear probe; the others are principal components of the rest."""

    name: ClassVar[str] = "probe"
    summary: ClassVar[str] = (
        "coordinate 0 is the direction of a linear probe of the label at the edited steps, the others complete it"
    )

    def fit(self, wanted: InBasis, problem: Problem) -> Basis:
        states = training_states(problem)
        return completed(self.name, probe_of(states)[None], torch.cat(states))


def difference_of_means(states: Sequence[Float[Tensor, "_ width"]]) -> Float[Tensor, " width"]:
    """The unit vector from the mean state of the first label to that of the second. Raises PivotalError if the states
    have only one label."""
    first, second = _both(states)
    return torch.nn.functional.normalize(second.mean(0) - first.mean(0), dim=0)


def _both(states: Sequence[Float[Tensor, "_ width"]]) -> tuple[Tensor, Tensor]:
    first, second = states
    if not len(first) or not len(second):
        raise PivotalError("A direction that tells two labels apart needs training pairs of both. Add some.")
    return first, second


def probe_of(states: Sequence[Float[Tensor, "_ width"]]) -> Float[Tensor, " width"]:
    """The unit vector of a logistic regression with a ridge penalty that tells the states of two labels apart. Both
    labels have the same weight."""
    first, second = (rows.double() for rows in _both(states))
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
