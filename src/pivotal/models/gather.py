"""Picking rows out of a tensor, with a way back that is cheap, and the same every time."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor, distinct: bool) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(rows)
        ctx.n, ctx.distinct = len(x), distinct
        return x.index_select(0, rows)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[override]
        (rows,) = ctx.saved_tensors
        if ctx.distinct:
            return grad.new_zeros(ctx.n, *grad.shape[1:]).index_copy_(0, rows, grad), None, None
        return added_up(grad, rows, ctx.n), None, None


def distinct_rows(
    x: Float[Tensor, "nodes _ width"], rows: Int[Tensor, " rows"]
) -> Float[Tensor, "rows _ width"]:
    """Some rows, each at most once: the backward pass then copies, where that of indexing would have to add up."""
    return _Rows.apply(x, rows, True)


def shared_rows(
    x: Float[Tensor, "parents _ width"], rows: Int[Tensor, " nodes"]
) -> Float[Tensor, "nodes _ width"]:
    """Some rows, each as often as it is asked for."""
    return _Rows.apply(x, rows, False)


def added_up(
    grad: Float[Tensor, "nodes _ width"], rows: Int[Tensor, " nodes"], n: int
) -> Float[Tensor, "{n} _ width"]:
    """For each of n rows, the sum of what comes back from wherever it was taken to.

    On a GPU `index_add_` adds in whatever order its threads arrive, and the same seed would give other last digits each
    time. This way a search takes a tenth longer, and gives the same.
    """
    back = grad.new_zeros(n, *grad.shape[1:])
    return back.index_put_((rows,), grad, accumulate=True) if grad.is_cuda else back.index_add_(0, rows, grad)
