"""Distributions over masks. A file in this folder or an entry point of the group `pivotal.masks` adds one.

The setting `mask` of the search `learned` selects one by its name.
"""

from __future__ import annotations

from pivotal.registry import Registry
from pivotal.searches.masks.base import MaskFamily

MASKS: Registry[MaskFamily] = Registry("masks", __name__, MaskFamily)  # type: ignore[type-abstract]

__all__ = ["MASKS", "MaskFamily"]
