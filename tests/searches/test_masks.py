"""The Hard Concrete formulas against numerical integration, and the gradient estimators against gradients by hand."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotal import PivotalError
from pivotal.searches.masks import Pathwise, ScoreFunction
from pivotal.searches.masks.bernoulli import Bernoulli
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


@given(families)
@SOME
def test_formulas_are_integrals_over_the_noise(family):
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
def test_float32_is_as_good(family):
    for formula in (family.nonzero, family.one, family.fractional, family.mean):
        assert torch.allclose(formula(LOGITS.float()).double(), formula(LOGITS), atol=1e-5)


@given(families, st.floats(-4, 4, allow_subnormal=False), st.integers(0, 1000))
@SOME
def test_samples_have_the_mean_and_the_zeros_of_the_formulas(family, logit, seed):
    u = torch.rand(20_000, generator=torch.Generator().manual_seed(seed))
    m = family.sample(torch.full_like(u, logit), u)
    assert m.min() >= 0 and m.max() <= 1
    logits = torch.tensor([logit])
    # Four standard errors of a share of 20,000 draws.
    assert m.mean() == pytest.approx(family.mean(logits).item(), abs=0.015)
    assert (m != 0).float().mean() == pytest.approx(family.nonzero(logits).item(), abs=0.015)


@given(families)
@SOME
def test_the_mean_rises_with_the_logit_and_so_does_the_hard_mask(family):
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
def test_noise_at_its_ends_gives_finite_masks_and_gradients(family):
    logits = torch.zeros(2, requires_grad=True)
    m = family.sample(logits, torch.tensor([0.0, 1.0]))
    assert m[0] < 0.01 and m[1] > 0.99
    m.sum().backward()
    assert logits.grad.isfinite().all()


def test_the_gradient_of_a_sample_is_that_of_its_formula():
    logits = torch.linspace(-2, 2, 9, dtype=torch.float64, requires_grad=True)
    u = torch.linspace(0.05, 0.95, 9, dtype=torch.float64)
    for family in (LOUIZOS, PAPER):
        assert torch.autograd.gradcheck(lambda x, f=family: f.sample(x, u), (logits,))


@pytest.mark.parametrize(
    "constants", [{"temperature": 0.0}, {"temperature": float("nan")}, {"low": 0.0}, {"high": 0.9}]
)
def test_constants_that_make_no_distribution_are_refused(constants):
    with pytest.raises(PivotalError, match="needs temperature > 0, low < 0 and high >= 1, but they are"):
        HardConcrete(**constants)


def test_the_score_function_is_the_gradient_of_the_expected_cost():
    """E[cost(m) * d log p(m)], summed over all masks of four units with their probabilities, is d E[cost] / d logits,
    whatever the control variate: it is the same for all masks, and E[d log p(m)] = 0."""
    masks = torch.tensor(list(product([0.0, 1.0], repeat=4)))
    cost = torch.randn(16, generator=torch.Generator().manual_seed(0))
    logits = torch.tensor([[[0.3, -1.0, 0.0, 2.0]]], requires_grad=True)
    p = logits.sigmoid()[0]
    chance = (masks * p + (1 - masks) * (1 - p)).prod(1)
    (exact,) = torch.autograd.grad(chance @ cost, logits, retain_graph=True)
    for control in (None, 7.0):
        estimate = torch.zeros_like(logits)
        for mask, c, weight in zip(masks, cost, chance.detach(), strict=True):
            estimator = ScoreFunction(samples=1)
            # At first the costs just drawn are the control variate: of one mask, it would leave nothing.
            estimator.follow(torch.full((1, 1), control or 0.0))
            term = estimator.term(Bernoulli(), logits, mask.view(1, 1, 1, 4), c.view(1, 1))
            estimate += weight * torch.autograd.grad(term.sum(), logits)[0]
        torch.testing.assert_close(estimate, exact)


def test_the_control_variate_follows_the_cost_and_survives_a_checkpoint():
    estimator, cost = ScoreFunction(memory=0.75), torch.tensor([[1.0, 3.0]])
    assert estimator.control(cost).tolist() == [2.0]  # the first cost is all there is to go by
    estimator.follow(cost)
    estimator.follow(cost + 4)
    assert estimator.control(cost).tolist() == [3.0]
    resumed = ScoreFunction(memory=0.75)
    resumed.restore(estimator.state(), torch.device("cpu"))
    assert resumed.control(cost).tolist() == [3.0]


def test_the_pathwise_term_is_the_mean_cost():
    cost = torch.tensor([[1.0, 3.0]], requires_grad=True)
    nothing = torch.zeros(1, 1, 4)
    term = Pathwise().term(LOUIZOS, nothing, nothing[:, None].expand(-1, 2, -1, -1), cost)
    assert term.tolist() == [2.0] and torch.autograd.grad(term.sum(), cost)[0].tolist() == [[0.5, 0.5]]


@pytest.mark.parametrize("family", [LOUIZOS, PAPER], ids=["closed", "half-open"])
def test_the_hard_mask_has_the_likeliest_units_and_never_none(family):
    logits = torch.tensor([[[3.0, -3.0, 5.0, 4.0]], [[-5.0, -9.0, -4.0, -6.0]]])
    assert Pathwise().hard(family, logits, 2).int().tolist() == [[[0, 0, 1, 1]], [[0, 0, 1, 0]]]
    assert Pathwise().hard(family, logits, 4)[0].int().tolist() == [[1, 0, 1, 1]]


def test_coins_that_have_not_settled_are_taken_up_to_the_budget():
    logits = torch.tensor([[[-3.0, -9.0, -2.0]], [[4.0, 5.0, 6.0]]])
    assert ScoreFunction().hard(Bernoulli(), logits, 2).int().tolist() == [[[1, 0, 1]], [[0, 1, 1]]]
