"""Output layer and loss in one function: logits are computed in chunks and replaced in place by their gradient.

For 18,000 tokens and 50,000 words the logits take 3.6 GB in float32, and autograd would keep them, their softmax and
its gradient. Here each chunk of logits becomes softmax - onehot in place and is multiplied back at once.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

CHUNK_BYTES = {"cuda": 1024 * 2**20, "cpu": 32 * 2**20}
_ALIGNED = 8
"""Columns added to the matrix: the first holds the bias, the others keep rows aligned for tensor cores."""


def cross_entropy(
    hidden: Float[Tensor, "tokens hidden"],
    weight: Float[Tensor, "rows hidden"],
    bias: Float[Tensor, " rows"],
    targets: Int[Tensor, " tokens"],
    words: int | None = None,
) -> Float[Tensor, ""]:
    """Mean of -log softmax(hidden weight^T + bias)[target]. Rows from `words` on are padding with probability zero.

    Products are computed in the dtype of `hidden`. The loss and the gradients of weight and bias are float32, or
    float64 if `hidden` is.
    """
    words = len(weight) if words is None else words
    if torch.is_grad_enabled():
        loss: Tensor = _CrossEntropy.apply(hidden, weight, bias, targets, words)
        return loss
    return _losses(hidden, weight, bias, targets, words).mean()


class _CrossEntropy(torch.autograd.Function):
    """Computes the gradients of the summed loss in the forward pass: those of the mean would underflow in float16."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, words: int
    ) -> Tensor:
        width, exact = weight.shape[1], torch.promote_types(hidden.dtype, torch.float32)
        of_hidden = torch.empty_like(hidden)
        of_matrix = hidden.new_zeros(len(weight), width + _ALIGNED, dtype=exact)
        losses = _losses(hidden, weight, bias, targets, words, (of_hidden, of_matrix))
        ctx.save_for_backward(of_hidden, of_matrix[:, :width], of_matrix[:, width])
        return losses.mean()

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias = ctx.saved_tensors
        factor = upstream[0] / len(hidden)
        return hidden * factor, weight * factor, bias * factor, None, None


@torch.no_grad()
def _losses(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    words: int,
    gradients: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """The loss of every token. Writes the gradients of their sum with respect to the hidden states and to the matrix of
    weights and bias."""
    width = weight.shape[1]
    matrix, inputs = _widened(weight, bias, hidden.dtype), _widened(hidden, 1, hidden.dtype)
    most = CHUNK_BYTES.get(hidden.device.type, CHUNK_BYTES["cpu"]) // (len(weight) * hidden.element_size())
    chunks = -(-len(hidden) // max(most, 1))
    # Chunks of equal size, a multiple of the tile size of the matrix product.
    rows = -(-len(hidden) // chunks // 128) * 128 if chunks > 1 and most >= 128 else max(most, 1)
    losses = hidden.new_empty(len(hidden), dtype=torch.promote_types(hidden.dtype, torch.float32))
    for start in range(0, len(hidden), rows):
        part = slice(start, start + rows)
        logits = inputs[part] @ matrix.t()
        losses[part] = softmax_gradient_(logits, targets[part], words)
        if gradients is not None:
            torch.mm(logits, matrix[:, :width], out=gradients[0][part])
            gradients[1].add_(logits.t() @ inputs[part])
    return losses


def _widened(part: Tensor, column: Tensor | int, dtype: torch.dtype) -> Tensor:
    """A matrix with `_ALIGNED` more columns, of which the first is given."""
    rows, width = part.shape
    made = part.new_zeros(rows, width + _ALIGNED, dtype=dtype)
    made[:, :width], made[:, width] = part, column
    return made


def softmax_gradient_(
    logits: Float[Tensor, "tokens rows"], targets: Int[Tensor, " tokens"], words: int
) -> Float[Tensor, " tokens"]:
    """The loss of every token. Replaces `logits` by their gradient, softmax - onehot, which is zero in the padding."""
    kernel = _kernel() if logits.is_cuda else None
    return (kernel or plain_softmax_gradient_)(logits, targets, words)


def plain_softmax_gradient_(
    logits: Float[Tensor, "tokens rows"], targets: Int[Tensor, " tokens"], words: int
) -> Float[Tensor, " tokens"]:
    exact = torch.promote_types(logits.dtype, torch.float32)
    logits[:, words:] = -torch.inf
    at = targets.long()[:, None]
    wanted = logits.gather(1, at)[:, 0].to(exact)
    # Subtract the row maximum first: in float16 the exp of a logit overflows from about 11 on.
    highest = logits.amax(1, keepdim=True)
    logits.sub_(highest).exp_()
    total = logits.sum(1, keepdim=True, dtype=exact)
    logits.div_(total) if logits.dtype == exact else logits.copy_(logits.to(exact) / total)
    logits.scatter_add_(1, at, logits.new_full((1, 1), -1).expand_as(at))
    return total[:, 0].log() + highest[:, 0].to(exact) - wanted


@cache
def _kernel() -> Any:
    """The Triton version, which reads a chunk twice and writes it once; None where Triton is not installed."""
    try:
        from pivotal.lm.cross_entropy_kernel import softmax_gradient_ as kernel
    except ImportError:
        return None
    return kernel
