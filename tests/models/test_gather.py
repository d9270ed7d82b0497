"""Picking rows: what plain indexing gives, there and back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from pivotal.models.tensors import distinct_rows, shared_rows

DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
    ),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("pick, rows", [(distinct_rows, [4, 0, 2]), (shared_rows, [4, 0, 0, 2, 4, 4])])
def test_rows_and_their_gradients_are_those_of_indexing(
    pick: Callable[[Tensor, Tensor], Tensor], rows: list[int], device: str
) -> None:
    x = torch.randn(5, 2, 3, dtype=torch.float64, device=device, requires_grad=True)
    at = torch.tensor(rows, device=device)
    weights = torch.randn(len(rows), 2, 3, dtype=torch.float64, device=device)
    ours, theirs = pick(x, at), x[at]
    assert torch.equal(ours, theirs)
    (found,) = torch.autograd.grad((ours * weights).sum(), x)
    (expected,) = torch.autograd.grad((theirs * weights).sum(), x)
    torch.testing.assert_close(found, expected)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_adds_in_the_same_order_every_time() -> None:
    x = torch.randn(7, 3, 650, device="cuda", requires_grad=True)
    at = torch.randint(0, 7, (4000,), device="cuda")
    weights = torch.randn(4000, 3, 650, device="cuda")
    first, *others = (torch.autograd.grad((shared_rows(x, at) * weights).sum(), x)[0] for _ in range(5))
    assert all(torch.equal(first, other) for other in others)
