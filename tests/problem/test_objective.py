import math
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pivotal import Problem, load_phenomenon
from pivotal.models.planted import plant
from pivotal.problem.batch import Outcome
from pivotal.problem.objective import Terms, loss_of
from pivotal.searches import Attribution, Greedy, LearnedMask

# Loading a model flushes subnormal numbers to zero for the whole process, and hypothesis would object.
floats = partial(st.floats, allow_nan=False, allow_subnormal=False)
nats = floats(-20, 20, width=32)


@given(nats, floats(0, 5))
def test_both_objectives_are_what_they_say(log_ratio, margin):
    x = torch.tensor([[log_ratio]])
    assert loss_of("ratio", x, margin).item() == pytest.approx(math.exp(log_ratio), rel=1e-4)
    soft = math.log1p(math.exp(-abs(log_ratio + margin))) + max(0.0, log_ratio + margin)
    assert loss_of("soft-margin", x, margin).item() == pytest.approx(soft, rel=1e-3, abs=1e-6)


def test_a_hopeless_example_gives_numbers_and_the_soft_margin_still_pulls():
    x = torch.tensor([[500.0]], requires_grad=True)
    assert loss_of("ratio", x, 1.0).isfinite().all()
    (slope,) = torch.autograd.grad(loss_of("soft-margin", x, 1.0).sum(), x)
    assert slope.item() == pytest.approx(1)


def test_the_loss_of_a_run_is_the_mean_over_its_examples():
    log_ratio = torch.tensor([[-1.0, 2.0], [0.0, 0.0]])
    outcome = Outcome(log_ratio, torch.zeros(1, 2, 1))
    for terms in (Terms(), Terms("ratio"), Terms(margin=3.0)):
        expected = loss_of(terms.flip_loss, log_ratio, terms.margin).mean(1)
        assert torch.equal(terms.loss(outcome), expected)
    assert outcome.flipped().tolist() == [[True, False], [False, False]]  # a tie is no flip


@pytest.mark.parametrize(
    ("terms", "wanted"), [(Terms(), False), (Terms(kl_weight=0.1), True), (Terms(max_kl=0.1), True)]
)
def test_kl_is_computed_only_if_somebody_wants_it(terms, wanted):
    assert terms.wants_kl == wanted


def test_what_breaks_the_kl_bound_comes_behind_all_that_keeps_it():
    problem = Problem(plant().model, load_phenomenon("planted").sample(4))
    loss, kl = torch.tensor([5.0, 0.1, 0.1, 0.2]), torch.tensor([0.09, 0.2, 0.11, 0.1])
    assert Terms(max_kl=0.1).score(problem, loss, kl[:, None]).argsort().tolist() == [3, 0, 2, 1]
    assert torch.allclose(Terms(kl_weight=2.0).score(problem, loss, kl[:, None]), loss + 2 * kl)


def counterfactual_problem(steps: Any = "every", **settings: Any) -> Problem:
    return Problem(
        plant(dtype=torch.float64).model,
        load_phenomenon("planted").sample(40),
        steps=steps,
        objective="counterfactual",
        **settings,
    )


@pytest.mark.parametrize("steps", ["single", "every"])
def test_the_gradient_of_the_counterfactual_objective_is_the_slope_of_its_loss(steps):
    problem, generator = counterfactual_problem(steps), torch.Generator().manual_seed(0)
    shape = (1, 2, len(problem.space))
    mask, values = (torch.rand(shape, generator=generator) for _ in range(2))
    drawn = Terms().draw(problem, generator)

    def loss(mask: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return Terms().loss(problem.run(mask, values), drawn).sum()

    given = [mask.clone().requires_grad_(), values.clone().requires_grad_()]
    gradients = torch.autograd.grad(loss(given[0], given[1]), given)
    for which, gradient in enumerate(gradients):
        at = int(gradient.abs().flatten().argmax())
        step = torch.zeros(shape).flatten()
        step[at] = 1e-2
        ends = [[mask, values], [mask, values]]
        ends[0][which], ends[1][which] = ends[0][which] - step.view(shape), ends[1][which] + step.view(shape)
        slope = (loss(*ends[1]) - loss(*ends[0])) / 2e-2
        assert float(gradient.flatten()[at]) == pytest.approx(float(slope), rel=2e-2)


def test_the_counterfactual_objective_is_the_mean_divergence_from_the_counterfactual():
    problem = counterfactual_problem(values="interchange")
    mask, values = torch.zeros(2, 2, len(problem.space)), torch.zeros(2, 2, problem.space.coordinates)
    mask[1] = 1.0
    outcome = problem.run(mask, values)
    untouched, whole = Terms().loss(outcome).tolist()
    assert untouched > 0.05 and whole == pytest.approx(0, abs=1e-6)
    assert Terms().reached(problem, outcome).tolist() == pytest.approx([0, 1], abs=1e-5)
    drawn = problem.positions.draw(20_000, torch.Generator().manual_seed(0))
    assert Terms().loss(outcome, drawn)[0].item() == pytest.approx(untouched, rel=0.05)
    both = Terms().by_direction(outcome, torch.ones(len(problem), 2), drawn)
    assert both.sum(1).tolist() == pytest.approx(Terms().loss(outcome, drawn).tolist(), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("values", ["natural", "interchange"])
@pytest.mark.parametrize(
    "search",
    [
        Attribution(max_units=3),
        pytest.param(Greedy(max_units=3), marks=pytest.mark.slow),
        LearnedMask(max_units=3, updates=40),
    ],
    ids=lambda search: search.name,
)
def test_searches_find_the_planted_units_by_what_the_model_would_have_said(search, values):
    planted, pairs = plant(), load_phenomenon("planted").sample(200)
    problem = Problem(planted.model, pairs, values=values, objective="counterfactual")
    assert set(search.solve(problem).best.units) == set(planted.units)
