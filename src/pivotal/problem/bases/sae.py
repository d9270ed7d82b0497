"""`@sae:PATH`: the features of a sparse autoencoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pivotal.errors import PivotalError
from pivotal.models.bases import Basis
from pivotal.models.bases.sae_files import read_sae
from pivotal.problem.bases.base import BasisKind
from pivotal.units import InBasis

if TYPE_CHECKING:
    from pivotal.problem.problem import Problem


class SparseAutoencoder(BasisKind):
    """Features of a sparse autoencoder that another library trained."""

    name: ClassVar[str] = "sae"
    summary: ClassVar[str] = (
        "features of a sparse autoencoder: @sae:FOLDER of SAELens, Gemma Scope, Gemma Scope 2, sparsify or Llama Scope"
    )

    def make(self, asked: InBasis, problem: Problem) -> Basis:
        return self.read(asked)

    def read(self, asked: InBasis) -> Basis:
        if not asked.argument:
            raise PivotalError(
                f"A sparse autoencoder is read from a folder, but {asked.name} names none. Write {asked.name}:FOLDER."
            )
        found = read_sae(asked.argument)
        here = asked.site.name
        # Gemma Scope names the layer only.
        there = here if found.site and here.endswith(found.site) and found.site[0] == "." else found.site
        if there and there != here:
            named = f"layer {there[1:]}" if there[0] == "." else there
            raise PivotalError(
                f"An autoencoder belongs to the site that it was trained on, {named}, but {asked.argument} was named "
                f"for {here}. Search {there if there[0] != '.' else here.partition('.')[0] + there}, or use another "
                "autoencoder."
            )
        return found.basis
