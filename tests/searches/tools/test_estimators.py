"""The gradient estimators against gradients that can be computed by hand."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch

from pivotal.searches.masks import Pathwise, ScoreFunction
from pivotal.searches.masks.bernoulli import Bernoulli
from pivotal.searches.masks.hard_concrete import LOUIZOS, PAPER


def test_the_score_function_is_the_gradient_of_the_expected_cost() -> None:
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


def test_the_control_variate_follows_the_cost_and_survives_a_checkpoint() -> None:
    estimator, cost = ScoreFunction(memory=0.75), torch.tensor([[1.0, 3.0]])
    assert estimator.control(cost).tolist() == [2.0]  # the first cost is all there is to go by
    estimator.follow(cost)
    estimator.follow(cost + 4)
    assert estimator.control(cost).tolist() == [3.0]
    resumed = ScoreFunction(memory=0.75)
    resumed.restore(estimator.state(), torch.device("cpu"))
    assert resumed.control(cost).tolist() == [3.0]


def test_the_pathwise_term_is_the_mean_cost() -> None:
    cost = torch.tensor([[1.0, 3.0]], requires_grad=True)
    nothing = torch.zeros(1, 1, 4)
    term = Pathwise().term(LOUIZOS, nothing, nothing[:, None].expand(-1, 2, -1, -1), cost)
    assert term.tolist() == [2.0] and torch.autograd.grad(term.sum(), cost)[0].tolist() == [[0.5, 0.5]]


@pytest.mark.parametrize("family", [LOUIZOS, PAPER], ids=["closed", "half-open"])
def test_the_hard_mask_has_the_likeliest_units_and_never_none(family: Any) -> None:
    logits = torch.tensor([[[3.0, -3.0, 5.0, 4.0]], [[-5.0, -9.0, -4.0, -6.0]]])
    assert Pathwise().hard(family, logits, 2).int().tolist() == [[[0, 0, 1, 1]], [[0, 0, 1, 0]]]
    assert Pathwise().hard(family, logits, 4)[0].int().tolist() == [[1, 0, 1, 1]]


def test_coins_that_have_not_settled_are_taken_up_to_the_budget() -> None:
    logits = torch.tensor([[[-3.0, -9.0, -2.0]], [[4.0, 5.0, 6.0]]])
    assert ScoreFunction().hard(Bernoulli(), logits, 2).int().tolist() == [[[1, 0, 1]], [[0, 1, 1]]]
