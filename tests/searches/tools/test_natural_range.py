"""The search inside the natural range starts with the units that can do most there, and fills its pool with them."""

from __future__ import annotations

import torch

from pivotal.models.planted import plant
from pivotal.problem.objective import Terms
from pivotal.problem.problem import Problem
from pivotal.questions.phenomena import load_phenomenon
from pivotal.searches.learned import LearnedMask
from pivotal.searches.tools.learner import filled

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
