"""The fused output layer is torch's cross-entropy: value, gradients, in chunks, with padding, in half precision."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from pivotal.lm import cross_entropy as fused
from pivotal.lm.cross_entropy import cross_entropy, plain_softmax_gradient_

WORDS, PADDED = 11, 16


def case(tokens: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    torch.manual_seed(tokens)
    hidden, weight = torch.randn(tokens, 5, dtype=dtype), torch.randn(PADDED, 5, dtype=dtype)
    return hidden, weight, torch.randn(PADDED, dtype=dtype), torch.randint(0, WORDS, (tokens,)).int()


@pytest.fixture(params=[1, 3, 10**6])
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Rows in a chunk: one, a few with a rest, all."""
    monkeypatch.setitem(fused.CHUNK_BYTES, "cpu", request.param * PADDED * 8)
    return int(request.param)


@pytest.mark.parametrize("tokens", [1, 7])
def test_value_and_gradients_are_those_of_torch(chunk: int, tokens: int) -> None:
    *parts, targets = case(tokens)
    ours = [part.clone().requires_grad_() for part in parts]
    theirs = [part.clone().requires_grad_() for part in parts]
    loss = cross_entropy(*ours, targets, WORDS)
    logits = functional.linear(theirs[0], theirs[1], theirs[2])[:, :WORDS]
    expected = functional.cross_entropy(logits, targets.long())
    torch.testing.assert_close(loss, expected)
    (3 * loss).backward()
    (3 * expected).backward()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad)
    with torch.no_grad():
        torch.testing.assert_close(cross_entropy(*ours, targets, WORDS), expected)


def test_gradcheck(chunk: int) -> None:
    *parts, targets = case(4)
    inputs = tuple(part.requires_grad_() for part in parts)
    assert torch.autograd.gradcheck(lambda h, w, b: cross_entropy(h, w, b, targets, WORDS), inputs)


def test_padding_gets_no_probability_and_no_gradient() -> None:
    hidden, weight, bias, targets = case(6)
    bias[WORDS:] = 50.0
    weight.requires_grad_()
    bias.requires_grad_()
    cross_entropy(hidden, weight, bias, targets, WORDS).backward()
    assert weight.grad is not None and bias.grad is not None
    assert not weight.grad[WORDS:].any() and not bias.grad[WORDS:].any()
    assert bias.grad[:WORDS].all()


def test_half_precision_does_not_overflow() -> None:
    """exp(12) is more than float16 can hold; a logit of 200 is not unusual while learning."""
    hidden, weight, bias, targets = case(6, torch.float32)
    hidden *= 60
    exact = cross_entropy(hidden, weight, bias, targets, WORDS)
    half = hidden.half().requires_grad_()
    loss = cross_entropy(half, weight, bias, targets, WORDS)
    loss.backward()
    torch.testing.assert_close(loss.detach(), exact, rtol=5e-3, atol=0.05)
    assert half.grad is not None and bool(half.grad.isfinite().all())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("rows", [50_048, 4096, 70])
def test_the_kernel_does_what_the_plain_version_does(dtype: torch.dtype, rows: int) -> None:
    kernel = pytest.importorskip("pivotal.lm.cross_entropy_kernel")
    torch.manual_seed(0)
    words = rows - 3
    exact = torch.randn(65, rows, device="cuda") * 8
    ours, theirs = exact.to(dtype), exact.to(dtype).double()
    targets = torch.randint(0, words, (65,), device="cuda").int()
    losses = kernel.softmax_gradient_(ours, targets, words)
    expected = plain_softmax_gradient_(theirs, targets, words)
    torch.testing.assert_close(losses.double(), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=1e-2 if dtype != torch.float32 else 1e-5)
    assert not ours[:, words:].any()
