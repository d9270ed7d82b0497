"""Scores of added units, compared with masked runs that are made one by one."""

import itertools

import pytest
import torch
from tests.planted import BOTH_STEPS, planted_problem

from pivotal import Problem
from pivotal.models.planted import plant
from pivotal.problem.objective import Terms
from pivotal.searches.tools.trials import (
    ends_of,
    first_order,
    gains_at,
    grid_of,
    placed,
    score_additions,
    score_runs,
    screened,
)
from pivotal.units import Site, Steps, UnitSpace


def problem_of(steps: Steps = "every") -> Problem:
    return planted_problem(steps, pairs=60, values="unbounded")


def one_unit_set(problem: Problem, unit: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    mask = torch.zeros(1, 2, len(problem.space), dtype=torch.bool)
    values = torch.zeros(mask.shape)
    mask[:, :, unit], values[0, :, unit] = True, torch.tensor([0.7, -0.4])
    return mask, values


def test_the_grid_spans_what_a_unit_can_reach_and_ends_with_its_natural_value():
    problem = problem_of()
    grid = grid_of(problem, 4)
    assert grid.shape == (4, 2, 64)
    assert torch.equal(grid[:3, 0, 0], torch.tensor([-1.0, 0.0, 1.0]))
    assert torch.equal(grid[3], problem.measure_activations().target)


@BOTH_STEPS
def test_the_first_order_gain_is_the_slope_of_the_loss(steps):
    problem, terms = problem_of(steps), Terms()
    mask, values = one_unit_set(problem)
    grid = grid_of(problem, 3)
    gain = first_order(problem, terms, torch.zeros(1, 1), mask, values, grid)[0]
    assert gain[5] == -torch.inf
    step = 1e-3
    with torch.no_grad():
        here = terms.loss(problem.run(mask.float(), values))
        for unit in (0, 17, 44, 63):
            best = 0.0
            for direction in (0, 1):
                falls = []
                for end in (-1.0, 1.0):
                    moved, at = mask.float(), values.clone()
                    moved[0, direction, unit], at[0, direction, unit] = step, end
                    falls.append(float(here - terms.loss(problem.run(moved, at))) / step)
                best += max(falls)
            assert float(gain[unit]) == pytest.approx(best, abs=2e-3, rel=2e-2)


def test_gains_begin_at_the_first_site_asked_for():
    problem, terms = planted_problem(pairs=60), Terms()
    mask, values = one_unit_set(problem)
    ends = ends_of(grid_of(problem, 3))
    whole, later = (
        gains_at(problem, terms, torch.zeros(1, 1), mask, values, ends, first)[..., 6:] for first in (0, 1)
    )
    edge = problem.space.sites[0].width - 6
    assert torch.allclose(whole[..., edge:], later[..., edge:], atol=1e-4) and whole[..., :edge].any()


@BOTH_STEPS
@pytest.mark.parametrize("kl_weight", [0.0, 0.5])
def test_every_direction_gets_its_best_value(steps, kl_weight):
    """The values of the two directions are chosen apart; trying all combinations must not do better."""
    problem, terms = problem_of(steps), Terms(kl_weight=kl_weight)
    mask, values = one_unit_set(problem)
    grid = grid_of(problem, 4)
    tried = torch.tensor([[17, 44, 60]])
    found = score_additions(problem, terms, torch.full((1, 1), kl_weight), mask, values, tried, grid)
    for column, unit in enumerate(tried[0].tolist()):
        more, at = mask.float().repeat(16, 1, 1), values.repeat(16, 1, 1)
        more[:, :, unit] = 1.0
        for row, (a, b) in enumerate(itertools.product(range(4), repeat=2)):
            at[row, :, unit] = torch.stack([grid[a, 0, unit], grid[b, 1, unit]])
        with torch.no_grad():
            scores = score_runs(problem, terms, torch.full((16, 1), kl_weight), more, at)
        total = scores.score.sum(-1)
        assert float(found.score[0, column]) == pytest.approx(float(total.min()), rel=1e-4)
        # Values may tie, as all of them do for a unit that nothing reads: any of the best will do.
        (chosen,) = (at[:, :, unit] == found.values[0, column, :, 0]).all(1).nonzero()[:, 0].tolist()
        assert float(total[chosen]) == pytest.approx(float(total.min()), rel=1e-4)
        expected = float(scores.accuracy[chosen].sum())
        assert float(found.accuracy[0, column]) == pytest.approx(expected, abs=1e-5)


def test_scores_are_those_of_the_loss():
    problem, terms = problem_of(), Terms()
    mask, values = one_unit_set(problem)
    scores = score_runs(problem, terms, torch.zeros(1, 1), mask.float(), values)
    outcome = problem.run(mask.float(), values)
    assert float(scores.score.sum()) == pytest.approx(float(terms.loss(outcome)), rel=1e-5)
    assert float(scores.accuracy.sum()) == pytest.approx(float(outcome.flipped().float().mean()), abs=1e-6)


def test_an_addition_that_acts_in_one_direction_leaves_the_other_alone():
    problem, terms = problem_of(), Terms()
    mask = torch.zeros(1, 2, 64, dtype=torch.bool)
    values = torch.zeros(mask.shape)
    unit = problem.space.flat(plant().units[0])
    active = torch.tensor([[True, False]])
    asked = (problem, terms, torch.zeros(1, 1), mask, values, torch.tensor([[unit]]), grid_of(problem, 4))
    one, both = score_additions(*asked, active), score_additions(*asked)
    assert 0 < float(one.accuracy) < float(both.accuracy)


def test_units_are_placed_with_all_their_coordinates():
    space = UnitSpace((Site("a", 2), Site("b", 2, size=3)))
    grid = torch.arange(2 * 2 * 8, dtype=torch.float32).view(2, 2, 8)
    point = torch.tensor([[[0, 1], [1, 0]]])  # unit 1 low and unit 3 high in direction 0, the other way in 1
    mask, values = placed(space, torch.tensor([[1, 3]]), grid, point)
    assert mask.tolist() == [[[0, 1, 0, 1]] * 2]
    expected = torch.zeros(2, 8)
    expected[0, 1], expected[0, 5:] = grid[0, 0, 1], grid[1, 0, 5:]
    expected[1, 1], expected[1, 5:] = grid[1, 1, 1], grid[0, 1, 5:]
    assert torch.equal(values[0], expected)


def test_screening_leaves_out_what_is_in_the_set():
    gain = torch.tensor([[1.0, -torch.inf, 3.0, 2.0]])
    assert screened(gain, 2).tolist() == [[2, 3]]
    assert sorted(screened(gain, 0)[0].tolist()) == [0, 2, 3]
