"""`@rotation:FILE`: orthonormal directions from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pivotal.errors import PivotalError
from pivotal.models.bases import Basis
from pivotal.models.bases.files import read_rotation
from pivotal.problem.bases.base import BasisKind
from pivotal.units import InBasis

if TYPE_CHECKING:
    from pivotal.problem.problem import Problem


class Rotation(BasisKind):
    """Orthonormal directions as the rows of a matrix."""

    name: ClassVar[str] = "rotation"
    summary: ClassVar[str] = (
        "orthonormal directions from a file: @rotation:FILE, .safetensors or .npy, one direction per row"
    )

    def make(self, asked: InBasis, problem: Problem) -> Basis:
        return self.read(asked)

    def read(self, asked: InBasis) -> Basis:
        if not asked.argument:
            raise PivotalError(
                f"A rotation is read from a file, but {asked.name} names none. Write {asked.name}:FILE."
            )
        return read_rotation(asked.argument, asked.site.name, asked.site.coordinates)
