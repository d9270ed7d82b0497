"""`@rotation:FILE` and `@sae:FOLDER`: orthonormal directions, and sparse autoencoders of other libraries."""

from __future__ import annotations

from typing import ClassVar

from pivotal.errors import PivotalError
from pivotal.models.bases import Basis
from pivotal.models.bases.files import read_rotation
from pivotal.models.bases.sae_files import read_sae
from pivotal.problem.bases import BasisKind
from pivotal.units import InBasis


class Rotation(BasisKind):
    """Orthonormal directions as the rows of a matrix."""

    name: ClassVar[str] = "rotation"
    summary: ClassVar[str] = (
        "orthonormal directions from a file: @rotation:FILE, .safetensors or .npy, one direction per row"
    )

    def read(self, wanted: InBasis) -> Basis | None:
        site = wanted.site
        return read_rotation(wanted.argument, site.name, site.coordinates) if wanted.argument else None


class SparseAutoencoder(BasisKind):
    """Features of a sparse autoencoder that another library trained."""

    name: ClassVar[str] = "sae"
    summary: ClassVar[str] = "features of a sparse autoencoder: @sae:FOLDER of SAELens, or with params.npz"

    def read(self, wanted: InBasis) -> Basis | None:
        if not wanted.argument:
            return None
        (basis, trained), site = read_sae(wanted.argument), wanted.site.name
        if trained and trained != site:
            raise PivotalError(
                f"{wanted.argument} is an autoencoder of {trained}, not of {site}. Search {trained}, or use another."
            )
        return basis
