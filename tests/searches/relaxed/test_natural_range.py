"""The search inside the natural range starts with the units that can do most there, and fills its pool with them."""

from __future__ import annotations

import pytest
import torch

from pivotal.models.planted import plant
from pivotal.problem.objective import Terms
from pivotal.problem.problem import Problem
from pivotal.questions.phenomena import load_phenomenon
from pivotal.searches.learned import LearnedMask
from pivotal.searches.relaxed.learner import Learner, filled

PLANTED = plant(hidden=128)
PAIRS = load_phenomenon("planted").sample(120)


def test_a_mask_is_filled_with_the_units_that_help_most() -> None:
    problem = Problem(PLANTED.model, PAIRS, values="natural")
    mask = torch.zeros(2, 2, len(problem.space), dtype=torch.bool)
    there = problem.space.flat(PLANTED.units[0])
    mask[1, :, there] = True
    values = problem.measure_activations().target.expand(2, -1, -1)
    found = filled(problem, Terms(), mask, values, 3, 0)
    planted = {problem.space.flat(unit) for unit in PLANTED.units}
    for run in found:
        assert set(run.any(0).nonzero()[:, 0].tolist()) == planted
    assert not mask[0].any()  # the given mask is not changed
    assert filled(problem, Terms(), found, values, 3, 0).equal(found)


def test_the_learner_starts_with_few_units_inside_the_natural_range() -> None:
    search = LearnedMask(max_units=3)
    assert search.learner(Problem(PLANTED.model, PAIRS, values="natural"), 1, 0).pool == 64
    assert search.learner(Problem(PLANTED.model, PAIRS, values="unbounded"), 1, 0).pool == 128


def test_in_a_large_space_fewer_units_shrink_at_the_same_rate_in_fewer_updates() -> None:
    search = LearnedMask(max_units=3, pool=100)
    few = search.learner(Problem(PLANTED.model, PAIRS, values="natural"), 1, 0)
    many = search.learner(Problem(PLANTED.model, PAIRS, values="unbounded"), 1, 0)
    assert (few.pool, many.pool) == (64, 100)
    assert many.search.updates == search.updates

    def factor(learner: Learner) -> float:
        first = learner.target()
        learner.update = 10
        return learner.target() / first

    assert factor(few) == pytest.approx(factor(many), rel=0.01)
    assert few.search.updates < 0.9 * many.search.updates


def test_a_small_space_makes_all_updates() -> None:
    problem = Problem(PLANTED.model, PAIRS, values="natural")
    assert LearnedMask(max_units=3, pool=128).learner(problem, 1, 0).search == LearnedMask(
        max_units=3, pool=128
    )


def test_a_given_number_of_node_evaluations_is_used_whole_in_a_large_space() -> None:
    problem = Problem(PLANTED.model, PAIRS, values="natural")
    search = LearnedMask(max_units=3, pool=100, batch=16, refit=2, prune=-1.0).within(problem, 1, 20_000)
    search.solve(problem)
    assert problem.work.forward + problem.work.backward == pytest.approx(20_000, rel=0.1)
