"""Units in other bases: the coordinates of a site instead of its own units."""

from pivotal.models.bases.basis import Basis, stored_bases
from pivotal.models.bases.model import ModelInBases, in_bases

__all__ = ["Basis", "ModelInBases", "in_bases", "stored_bases"]
