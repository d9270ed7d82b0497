"""Shuffled weights: a model of the same shape that has learned nothing."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def shuffle_rows(
    weight: Float[Tensor, "rows columns"], noise: torch.Generator
) -> Float[Tensor, "rows columns"]:
    """Shuffle the entries of each row by a permutation of its own. The distribution of the weights stays the same."""
    order = torch.rand(weight.shape, generator=noise).argsort(-1)
    return weight.gather(-1, order.to(weight.device))
