"""The interface of a kind of basis, and the registry of kinds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from pivotal.models.base import LanguageModel
from pivotal.models.bases import Basis
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

    def read(self, asked: InBasis) -> Basis | None:
        """The basis that a file or folder holds. None if the basis is made from training pairs."""
        return None


BASES: Registry[BasisKind] = Registry("bases", "pivotal.problem.bases", BasisKind)  # type: ignore[type-abstract]


def with_bases(model: LanguageModel, sites: str, ask: Callable[[str], Problem]) -> LanguageModel:
    """The model with the bases that a pattern of sites names. Those that the model has already are kept.

    `ask` makes the problem of the model's own units of a site.
    """
    made = {}
    for one in sites_in_bases(model.sites, sites):
        kind = BASES.get(one.basis)
        if one.name not in model.bases:
            made[one.name] = _checked(one, kind().make(one, ask(one.site.name)))
    return model.in_bases(made)


def given_bases(model: LanguageModel, sites: str) -> dict[str, Basis]:
    """The bases of a pattern of sites that no job makes: those that the model has already, and those in files."""
    found: dict[str, Basis] = {}
    for one in sites_in_bases(model.sites, sites):
        if one.name in model.bases:
            found[one.name] = model.bases[one.name]
        elif (basis := BASES.get(one.basis)().read(one)) is not None:
            found[one.name] = _checked(one, basis)
    return found


def _checked(asked: InBasis, basis: Basis) -> Basis:
    """The basis. Raises PivotalError if it does not fit the site."""
    check_basis(basis, asked.site.name, asked.site.coordinates, asked.argument or asked.name)
    return basis
