"""Tensors: rows selected fast and deterministically, checksums, and files that run no code."""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path
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
    """Select rows, each at most once. The backward pass copies where that of indexing would add."""
    return _Rows.apply(x, rows, True)


def shared_rows(
    x: Float[Tensor, "parents _ width"], rows: Int[Tensor, " nodes"]
) -> Float[Tensor, "nodes _ width"]:
    """Select rows, each any number of times."""
    return _Rows.apply(x, rows, False)


def added_up(
    grad: Float[Tensor, "nodes _ width"], rows: Int[Tensor, " nodes"], n: int
) -> Float[Tensor, "{n} _ width"]:
    """The sum of the gradients of all copies of each of the n rows.

    On a GPU, the order in which `index_add_` adds is not deterministic, so the same seed would give different last
    digits. `index_put_` is deterministic and makes a search a tenth slower.
    """
    back = grad.new_zeros(n, *grad.shape[1:])
    return back.index_put_((rows,), grad, accumulate=True) if grad.is_cuda else back.index_add_(0, rows, grad)


def wide(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The same numbers, in float32 at least."""
    return x.float() if x.dtype.itemsize < 4 else x


def loaded(module: torch.nn.Module, name: str, device: torch.device | str = "cpu") -> Float[Tensor, "..."]:
    """A weight of a module that accelerate has spread: on the device, if it is loaded on use only."""
    path, _, own = name.rpartition(".")
    part = module.get_submodule(path)
    if getattr(part, own).is_meta:
        from accelerate.utils import align_module_device

        with align_module_device(part, device):
            return getattr(part, own).detach()
    return getattr(part, own).detach()


@torch.no_grad()
def checksum(model: torch.nn.Module) -> str:
    """A checksum of all weights. Integer sums make it independent of the device and the order of summation."""
    digest, period = hashlib.sha256(), 65_521
    for name, tensor in sorted(model.state_dict().items()):
        number = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.dtype.itemsize]
        sums = []
        # In parts: the 64-bit numbers of an embedding would take several times its memory.
        whole = loaded(model, name) if tensor.is_meta else tensor.detach()
        for part in whole.contiguous().reshape(-1).view(number).split(16 * period):
            bits, place = part.to(torch.int64), torch.arange(len(part), device=part.device) % period + 1
            sums.append(torch.stack([bits.sum(), (bits * place).sum()]))
        plain, placed = torch.stack(sums).sum(0).tolist()
        digest.update(f"{name} {tuple(tensor.shape)} {plain} {placed}".encode())
    return digest.hexdigest()


UNREADABLE = (
    *(OSError, EOFError, RuntimeError, ValueError, TypeError, KeyError, IndexError, AttributeError),
    *(AssertionError, OverflowError, MemoryError, pickle.UnpicklingError),
)
"""The errors that torch raises for a file that is damaged, or that is something else."""


def load_tensors(path: Path) -> Any:
    """The tensors, numbers and texts in a file, on the CPU. A file that holds anything else is refused by torch, with
    one of the errors in `UNREADABLE`."""
    return torch.load(path, map_location="cpu", weights_only=True)
