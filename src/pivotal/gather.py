"""Picking rows out of a tensor, with a cheap way back."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor


class _Rows(torch.autograd.Function):
    """Some rows, each at most once: the backward pass then copies, where that of indexing would have to add up."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(rows)
        ctx.n = len(x)
        return x.index_select(0, rows)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        (rows,) = ctx.saved_tensors
        return grad.new_zeros(ctx.n, *grad.shape[1:]).index_copy_(0, rows, grad), None


def distinct_rows(
    x: Float[Tensor, "nodes _ width"], rows: Int[Tensor, " rows"]
) -> Float[Tensor, "rows _ width"]:
    return _Rows.apply(x, rows)
