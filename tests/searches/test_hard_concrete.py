"""The Hard Concrete formulas against numerical integration over the noise, and against samples."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotal.errors import PivotalError
from pivotal.searches.masks.hard_concrete import LOUIZOS, PAPER, HardConcrete

SOME = settings(max_examples=50, deadline=None)
LOGITS = torch.linspace(-8, 8, 33, dtype=torch.float64)

families = st.one_of(
    st.sampled_from([LOUIZOS, PAPER]),
    st.builds(
        HardConcrete,
        temperature=st.floats(0.1, 2.0),
        low=st.floats(-1.0, -0.02),
        high=st.one_of(st.just(1.0), st.floats(1.02, 2.0)),
    ),
)


def stretched(family: HardConcrete, logits: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Before it is cut off at 0 and 1; written down anew from the paper's text, in numpy."""
    s = 1 / (1 + np.exp(-(np.log(u) - np.log1p(-u) + logits) / family.temperature))
    return s * (family.high - family.low) + family.low


def test_the_two_sets_of_constants() -> None:
    assert (PAPER.temperature, PAPER.low, PAPER.high) == (0.2, -0.2, 1.0)
    assert (LOUIZOS.temperature, LOUIZOS.low, LOUIZOS.high) == (2 / 3, -0.1, 1.1)


@given(families)
@SOME
def test_formulas_are_integrals_over_the_noise(family: HardConcrete) -> None:
    u = (np.arange(20_000) + 0.5) / 20_000
    x = stretched(family, LOGITS.numpy()[:, None], u)
    # With high = 1 the stretched variable never exceeds 1, though float64 may round it there.
    at_one = (x >= 1) if family.high > 1 else np.zeros_like(x, dtype=bool)
    for formula, integral in (
        (family.nonzero, x > 0),
        (family.one, at_one),
        (family.fractional, (x > 0) & ~at_one),
        (family.mean, x.clip(0, 1)),
    ):
        assert np.abs(formula(LOGITS).numpy() - integral.mean(1)).max() < 2e-3, formula.__name__


@given(families)
@SOME
def test_float32_is_as_good(family: HardConcrete) -> None:
    for formula in (family.nonzero, family.one, family.fractional, family.mean):
        assert torch.allclose(formula(LOGITS.float()).double(), formula(LOGITS), atol=1e-5)


@given(families, st.floats(-4, 4, allow_subnormal=False), st.integers(0, 1000))
@SOME
def test_samples_have_the_mean_and_the_zeros_that_the_formulas_say(
    family: HardConcrete, logit: float, seed: int
) -> None:
    u = torch.rand(20_000, generator=torch.Generator().manual_seed(seed))
    m = family.sample(torch.full_like(u, logit), u)
    assert m.min() >= 0 and m.max() <= 1
    logits = torch.tensor([logit])
    # Four standard errors of a share of 20,000 draws.
    assert m.mean() == pytest.approx(family.mean(logits).item(), abs=0.015)
    assert (m != 0).float().mean() == pytest.approx(family.nonzero(logits).item(), abs=0.015)


@given(families)
@SOME
def test_the_mean_rises_with_the_logit_and_so_does_the_hard_mask(family: HardConcrete) -> None:
    """A large logit is a mask of 1: the stretch that the paper's text describes, not the one that it prints."""
    mean = family.mean(LOGITS)
    assert (mean.diff() > 0).all()
    assert mean[0] < 0.5 < mean[-1]
    hard = family.hard(LOGITS)
    assert torch.equal(hard, mean > 0.5) and (hard.int().diff() >= 0).all()
    far = torch.tensor([-40.0, 40.0])
    assert torch.allclose(family.mean(far), torch.tensor([0.0, 1.0]), atol=1e-3)
    assert torch.allclose(family.sample(far, torch.tensor([0.5, 0.5])), torch.tensor([0.0, 1.0]), atol=1e-3)


@given(families)
@SOME
def test_noise_at_its_ends_gives_finite_masks_and_gradients(family: HardConcrete) -> None:
    logits = torch.zeros(2, requires_grad=True)
    m = family.sample(logits, torch.tensor([0.0, 1.0]))
    assert m[0] < 0.01 and m[1] > 0.99
    m.sum().backward()
    assert logits.grad is not None and logits.grad.isfinite().all()


def test_the_gradient_of_a_sample_is_that_of_its_formula() -> None:
    logits = torch.linspace(-2, 2, 9, dtype=torch.float64, requires_grad=True)
    u = torch.linspace(0.05, 0.95, 9, dtype=torch.float64)
    for family in (LOUIZOS, PAPER):
        assert torch.autograd.gradcheck(lambda x, f=family: f.sample(x, u), (logits,))


@pytest.mark.parametrize(
    "constants",
    [
        {"temperature": 0.0},
        {"temperature": -1.0},
        {"temperature": float("nan")},
        {"low": 0.0},
        {"low": 0.1},
        {"high": 0.9},
    ],
)
def test_constants_that_make_no_distribution_are_refused(constants: dict[str, float]) -> None:
    with pytest.raises(PivotalError, match="needs temperature > 0, low < 0 and high >= 1, but they are"):
        HardConcrete(**constants)
