"""A Triton kernel for softmax and its gradient: one program per token reads its logits twice and writes them once."""

from __future__ import annotations

from typing import no_type_check

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor


@triton.jit  # type: ignore[misc,untyped-decorator,unused-ignore]
@no_type_check  # a type checker would wrap the function, and Triton would compile the wrapper
def _softmax_gradient(logits, targets, losses, stride, words, rows, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    token = tl.program_id(0).to(tl.int64)
    line = logits + token * stride
    target = tl.load(targets + token).to(tl.int32)
    wanted = tl.load(line + target).to(tl.float32)
    highest = tl.full((), float("-inf"), tl.float32)
    total = tl.full((), 0.0, tl.float32)
    for start in range(0, words, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(line + at, mask=at < words, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(highest, tl.max(x, axis=0))
        total = total * tl.exp(highest - higher) + tl.sum(tl.exp(x - higher), axis=0)
        highest = higher
    tl.store(losses + token, tl.log(total) + highest - wanted)
    share = 1.0 / total
    # `wanted` is in the row that is overwritten next: no warp may overwrite it before another has read it.
    tl.debug_barrier()
    for start in range(0, rows, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(line + at, mask=at < words, other=float("-inf")).to(tl.float32)
        gradient = tl.exp(x - highest) * share - tl.where(at == target, 1.0, 0.0)
        tl.store(line + at, gradient.to(logits.dtype.element_ty), mask=at < rows)


def softmax_gradient_(logits: Tensor, targets: Tensor, words: int) -> Tensor:
    """The same as `cross_entropy.plain_softmax_gradient_`."""
    losses = torch.empty(len(logits), dtype=torch.float32, device=logits.device)
    with torch.cuda.device(logits.device):
        _softmax_gradient[(len(logits),)](
            logits, targets, losses, logits.stride(0), words, logits.shape[1], BLOCK=4096, num_warps=8
        )
    return losses
