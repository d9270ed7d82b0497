"""Units in other bases: the coordinates of a site instead of its own units."""

from pivotal.models.bases.basis import Basis, stored_bases

__all__ = ["Basis", "stored_bases"]
