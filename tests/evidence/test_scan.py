"""Looks at small sets, compared with masked runs that are made one by one."""

import itertools

import pytest
import torch
from tests.planted import PAIRS

from pivotal import Problem
from pivotal.evidence.scan import Scan, Tried
from pivotal.models.planted import plant
from pivotal.problem.objective import Terms
from pivotal.records.certificate import Effort, Look
from pivotal.searches.tools.trials import placed


@pytest.fixture(scope="module")
def problem() -> Problem:
    return Problem(plant().model, PAIRS.sample(60), steps="every")


def scan_of(problem: Problem, **settings: object) -> Scan:
    effort = Effort(**{"sample": 24, "finalists": 3, "first": 4, **settings})
    return Scan(problem, Terms(), effort, 0, lambda phase, done, of: None)


def loss_at(problem: Problem, tried: Tried, point: torch.Tensor) -> float:
    sample = problem.sample(tried.looks[-1].prefixes, 0)
    with torch.no_grad():
        outcome = sample.run(*placed(problem.space, tried.units[:1], tried.grid, point[None]))
    return float(Terms().loss(outcome))


@pytest.mark.parametrize("pairs", ["screened", "all"])
def test_no_other_values_of_the_grid_are_better(problem, pairs):
    """Of the best single unit and the best pair, directions and units together."""
    scan = scan_of(problem, pairs=pairs, candidates=6)
    for tried in (scan.singles(), scan.pairs()):
        k = tried.units.shape[1]
        every = itertools.product(range(len(tried.grid)), repeat=2 * k)
        least = min(loss_at(problem, tried, torch.tensor(each).view(2, k)) for each in every)
        assert loss_at(problem, tried, tried.point[0]) == pytest.approx(least, rel=1e-5)
        assert float(tried.score[0]) == pytest.approx(least, rel=1e-5)


def test_the_looks_are_on_record_and_the_planted_units_come_out(problem):
    planted = {problem.space.flat(unit) for unit in plant().units}
    scan = scan_of(problem, pairs="all")
    one, two = scan.singles(), scan.pairs()
    assert one.looks == (Look(64, 24, 3), Look(12, 24, 6))
    assert two.looks == (Look(2016, 16, 2), Look(2016, 24, 3), Look(12, 24, 3))
    assert int(one.units[0, 0]) in planted
    assert set(two.units[0].tolist()) < planted
