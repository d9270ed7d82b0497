"""KL between two next-word distributions, as one autograd node."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor


def divergence(
    untouched: Float[Tensor, "nodes vocabulary"], edited: Float[Tensor, "nodes runs vocabulary"]
) -> Float[Tensor, "nodes runs"]:
    """KL(untouched || edited) of two distributions given by their logits. Only `edited` has a gradient.

    The sum over the vocabulary is a sum of differences. Logits of transformers are in the tens, and a sum of 50,000
    logits in float32 has an error of several thousandths, as large as the KL of a small edit.
    """
    found: Tensor = _Divergence.apply(untouched, edited)
    return found


class _Divergence(torch.autograd.Function):
    """The sum over the vocabulary of p * (log p - log q), whose gradient by the logits of q is q - p.

    As separate operations, the passes over all logits take as long as the product that computes the logits.
    """

    @staticmethod
    def forward(ctx: Any, untouched: Tensor, edited: Tensor) -> Tensor:  # type: ignore[override]
        log_p, log_q = untouched.log_softmax(-1), edited.log_softmax(-1)
        p = log_p.exp()
        if ctx.needs_input_grad[1]:
            ctx.save_for_backward(p, log_q)
            lower = log_p[:, None] - log_q
        else:
            lower = log_q.neg_().add_(log_p[:, None])
        return torch.bmm(lower, p[..., None])[..., 0]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:  # type: ignore[override]
        p, log_q = ctx.saved_tensors
        return None, log_q.exp().sub_(p[:, None]).mul_(grad[..., None])
