"""Matrices as 8-bit integers: a quarter of the size of float32, for nearly the same model."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


def quantised(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Store every matrix `X` as `X.int8` and `X.scale`, one scale per row; vectors stay as they are.

    `folder.dequantised` is the inverse, up to rounding: by at most 1/254 of the largest weight of the row.
    """
    tensors = {}
    for name, weight in weights.items():
        if weight.dim() != 2:
            tensors[name] = weight
            continue
        scale = weight.abs().amax(1).clamp_min(1e-8) / 127
        tensors[f"{name}.int8"] = (weight / scale[:, None]).round().to(torch.int8)
        tensors[f"{name}.scale"] = scale
    return tensors
