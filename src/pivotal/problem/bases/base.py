"""The interface of a kind of basis, and the registry of kinds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from pivotal.models.base import LanguageModel
from pivotal.models.bases import Basis, in_bases
from pivotal.models.bases.basis import check_basis
from pivotal.registry import Registry
from pivotal.units import InBasis, sites_in_bases

if TYPE_CHECKING:
    from pivotal.problem.problem import Problem


class BasisKind(ABC):
    """Makes the basis of a site that a pattern such as `resid.12@pca` names. One file in this folder adds a kind."""

    name: ClassVar[str]
    summary: ClassVar[str]

    @abstractmethod
    def make(self, asked: InBasis, problem: Problem) -> Basis:
        """The basis of a site. `problem` asks the training pairs, with the model's own units of that site."""


BASES: Registry[BasisKind] = Registry("bases", "pivotal.problem.bases", BasisKind)  # type: ignore[type-abstract]


def with_bases(model: LanguageModel, sites: str, ask: Callable[[str], Problem]) -> LanguageModel:
    """The model with the bases that a pattern of sites names. Those that the model has already are kept.

    `ask` makes the problem of the model's own units of a site.
    """
    made = {}
    for one in sites_in_bases(model.sites, sites):
        kind = BASES.get(one.basis)
        if one.name not in model.bases:
            basis = kind().make(one, ask(one.site.name))
            check_basis(basis, one.site.name, one.site.coordinates, one.argument or one.name)
            made[one.name] = basis
    return in_bases(model, made)
