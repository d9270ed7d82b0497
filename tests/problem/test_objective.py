from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pivotal.models.planted import plant
from pivotal.problem.batch import Outcome
from pivotal.problem.objective import Terms, loss_of
from pivotal.problem.problem import Problem
from pivotal.questions.phenomena import load_phenomenon

# Loading a model flushes subnormal numbers to zero for the whole process, and hypothesis would object.
floats = partial(st.floats, allow_nan=False, allow_subnormal=False)
nats = floats(-20, 20, width=32)


@given(nats, floats(0, 5))
def test_both_objectives_are_what_they_say(log_ratio: float, margin: float) -> None:
    x = torch.tensor([[log_ratio]])
    assert loss_of("ratio", x, margin).item() == pytest.approx(math.exp(log_ratio), rel=1e-4)
    soft = math.log1p(math.exp(-abs(log_ratio + margin))) + max(0.0, log_ratio + margin)
    assert loss_of("soft-margin", x, margin).item() == pytest.approx(soft, rel=1e-3, abs=1e-6)


def test_a_hopeless_example_gives_numbers_and_the_soft_margin_still_pulls() -> None:
    x = torch.tensor([[500.0]], requires_grad=True)
    assert loss_of("ratio", x, 1.0).isfinite().all()
    (slope,) = torch.autograd.grad(loss_of("soft-margin", x, 1.0).sum(), x)
    assert slope.item() == pytest.approx(1)


def test_the_loss_of_a_run_is_the_mean_over_its_examples() -> None:
    log_ratio = torch.tensor([[-1.0, 2.0], [0.0, 0.0]])
    outcome = Outcome(log_ratio, torch.zeros(1, 2, 1))
    for terms in (Terms(), Terms("ratio"), Terms(margin=3.0)):
        expected = loss_of(terms.objective, log_ratio, terms.margin).mean(1)
        assert torch.equal(terms.loss(outcome), expected)
    assert outcome.flipped().tolist() == [[True, False], [False, False]]  # a tie is no flip


@pytest.mark.parametrize(
    ("terms", "wanted"), [(Terms(), False), (Terms(kl_weight=0.1), True), (Terms(max_kl=0.1), True)]
)
def test_kl_is_computed_only_if_somebody_wants_it(terms: Terms, wanted: bool) -> None:
    assert terms.wants_kl == wanted


def test_what_breaks_the_kl_bound_comes_behind_all_that_keeps_it() -> None:
    problem = Problem(plant().model, load_phenomenon("planted").sample(4))
    loss, kl = torch.tensor([5.0, 0.1, 0.1, 0.2]), torch.tensor([0.09, 0.2, 0.11, 0.1])
    assert Terms(max_kl=0.1).score(problem, loss, kl[:, None]).argsort().tolist() == [3, 0, 2, 1]
    assert torch.allclose(Terms(kl_weight=2.0).score(problem, loss, kl[:, None]), loss + 2 * kl)
