"""`@pca` and `@whitened`: principal components, fitted to the training pairs or read from a folder of `fit-basis`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch

from pivotal.models.bases import Basis
from pivotal.models.bases.files import read_folder
from pivotal.models.bases.fit import pca, whitened
from pivotal.problem.activations import states_to_edit
from pivotal.problem.bases.base import BasisKind
from pivotal.units import InBasis

if TYPE_CHECKING:
    from pivotal.problem.problem import Problem

_PREFIXES = 2048
"""The most prefixes whose states are used."""


def training_states(problem: Problem) -> list[torch.Tensor]:
    """The states of the problem's site at the edited steps, for each direction."""
    part = problem.sample(_PREFIXES)
    problem.work.forward += part.tree.n_live
    return states_to_edit(part.model, part.tree, part.space)


class PCA(BasisKind):
    """Principal components by falling variance."""

    name: ClassVar[str] = "pca"
    summary: ClassVar[str] = (
        "principal components of the states at the edited steps; @pca:FOLDER reads those of `fit-basis`"
    )

    def make(self, asked: InBasis, problem: Problem) -> Basis:
        return self.read(asked) or pca(torch.cat(training_states(problem)))

    def read(self, asked: InBasis) -> Basis | None:
        return read_folder(asked.argument, asked.site.name, self.name) if asked.argument else None


class Whitened(BasisKind):
    """Principal components in units of their standard deviations."""

    name: ClassVar[str] = "whitened"
    summary: ClassVar[str] = "like pca, with every coordinate in units of its own standard deviation"

    def make(self, asked: InBasis, problem: Problem) -> Basis:
        return self.read(asked) or whitened(torch.cat(training_states(problem)))

    def read(self, asked: InBasis) -> Basis | None:
        return read_folder(asked.argument, asked.site.name, self.name) if asked.argument else None
