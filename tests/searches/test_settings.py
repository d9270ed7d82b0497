"""Settings that a search cannot have are refused, with the rule and the value."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.searches.planted import planted_problem

from pivotal.errors import PivotalError
from pivotal.searches.ablation import Ablation
from pivotal.searches.attribution import Attribution
from pivotal.searches.base import budget_of
from pivotal.searches.exchange import Exchange
from pivotal.searches.greedy import Greedy
from pivotal.searches.learned import LearnedMask
from pivotal.searches.random import RandomUnits
from pivotal.searches.reinforce import Reinforce


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: LearnedMask(max_units=0), "at least one unit, but max_units is 0"),
        (lambda: LearnedMask(updates=0), "updates must be at least one, but it is 0"),
        (lambda: LearnedMask(anneal=1.5), "anneal must be between 0 and 1, but it is 1.5"),
        (lambda: LearnedMask(mask_rate=0.0), "mask_rate must be above 0"),
        (lambda: LearnedMask(spare=0.5), "spare must be 1 or more"),
        (lambda: LearnedMask(max_kl=0.0), "max_kl must be above 0"),
        (lambda: LearnedMask(objective="other"), "objective cannot be 'other'"),  # type: ignore[arg-type]
        (lambda: LearnedMask(mask="bernouli"), "no masks named 'bernouli'. Did you mean 'bernoulli'"),
        (lambda: Reinforce(memory=1.0), "memory must be 0 or more and below 1"),
        (lambda: Attribution(reach=1.5), "reach must be above 0 and up to 1"),
        (lambda: RandomUnits(draws=0), "draws must be 1 or more"),
        (lambda: Greedy(beam=0), "beam must be 1 or more, but it is 0"),
        (lambda: Greedy(points=2), "points must be 3 or more"),
        (lambda: Exchange(start="greedy+exchange").check_there(), "starts from another search"),
        (lambda: Exchange(start="random+gredy").check_there(), "Did you mean 'greedy'"),
        (lambda: LearnedMask(max_units=65).solve(planted_problem()), "There are 64 units .*max_units is 65"),
        (lambda: LearnedMask(max_fractional=99).solve(planted_problem()), "64 units"),
        (lambda: Ablation().solve(planted_problem(), runs=0), "at least one run, but runs is 0"),
    ],
)
def test_impossible_settings_are_refused(make: Callable[[], object], says: str) -> None:
    with pytest.raises(PivotalError, match=says):
        make()


@pytest.mark.parametrize(
    ("asked", "units", "budget"),
    [(3, 64, 3), (3.0, 64, 3), (0.05, 64, 3), (0.001, 64, 1), (64, 64, 64), (1, 1, 1)],
)
def test_a_budget_is_a_number_or_a_fraction(asked: float, units: int, budget: int) -> None:
    assert budget_of(asked, units) == budget
