"""The kinds of bases that `--sites SITE@KIND` can name. One file in this folder adds a kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from pivotal.errors import PivotalError
from pivotal.models.base import LanguageModel
from pivotal.models.bases import Basis
from pivotal.models.bases.basis import check_basis
from pivotal.registry import Registry
from pivotal.units import InBasis, sites_in_bases

if TYPE_CHECKING:
    from pivotal.problem.problem import Problem


class BasisKind:
    """Reads or fits the basis of a site that a pattern such as `resid.12@pca` names."""

    name: ClassVar[str]
    summary: ClassVar[str]

    def read(self, wanted: InBasis) -> Basis | None:
        """The basis that a file or folder holds. None if the pattern names no file."""
        return None

    def fit(self, wanted: InBasis, problem: Problem) -> Basis:
        """The basis fitted to training pairs. `problem` asks them, with the model's own units of the site."""
        raise PivotalError(f"The basis {self.name} is read from a file. Write {wanted.name}:PATH.")


BASES: Registry[BasisKind] = Registry("bases", __name__, BasisKind)


def with_bases(model: LanguageModel, sites: str, ask: Callable[[str], Problem]) -> LanguageModel:
    """The model with the bases that a pattern of sites names. Those that the model has already are kept.

    `ask` makes the problem of the model's own units of a site.
    """
    bases = given_bases(model, sites)
    for wanted in sites_in_bases(model.sites, sites):
        if wanted.name not in bases:
            basis = BASES.get(wanted.basis)().fit(wanted, ask(wanted.site.name))
            bases[wanted.name] = _checked(wanted, basis)
    return model.in_bases(bases)


def given_bases(model: LanguageModel, sites: str) -> dict[str, Basis]:
    """The bases of a pattern of sites that no job makes: those that the model has already, and those in files."""
    bases: dict[str, Basis] = {}
    for wanted in sites_in_bases(model.sites, sites):
        if wanted.name in model.bases:  # also a basis of one's own, which is of no kind
            bases[wanted.name] = model.bases[wanted.name]
        elif (basis := BASES.get(wanted.basis)().read(wanted)) is not None:
            bases[wanted.name] = _checked(wanted, basis)
    return bases


def _checked(wanted: InBasis, basis: Basis) -> Basis:
    """The basis. Raises PivotalError if it does not fit the site."""
    check_basis(basis, wanted.site.name, wanted.site.coordinates, wanted.argument or wanted.name)
    return basis
