"""What searches are built from, and the shapes of the tensors that they pass on.

A run of a search, or a set of units that is tried, is a row of its tensors: many sets are computed in one masked pass.
"""

from __future__ import annotations

from typing import TypeAlias

from jaxtyping import Bool, Float
from torch import Tensor

HardMasks: TypeAlias = Bool[Tensor, "runs directions units"]
"""The units of each run."""
SoftMasks: TypeAlias = Float[Tensor, "runs directions units"]
"""The same as numbers, which may lie between 0 and 1."""
RunValues: TypeAlias = Float[Tensor, "runs directions coordinates"]
"""What the coordinates of each run's units are set to."""
Prices: TypeAlias = Float[Tensor, "runs bounds"]
"""The prices of KL and of the other bounded costs, in units of the loss."""
SetMask: TypeAlias = Bool[Tensor, "directions units"]
"""The units of one run."""
SetValues: TypeAlias = Float[Tensor, "directions coordinates"]
"""The values of one run, or of all units."""
Grid: TypeAlias = Float[Tensor, "points directions coordinates"]
"""The values that are tried for each unit."""
