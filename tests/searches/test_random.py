"""Random units: a control must be random, reproducible, and no better than its luck."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.searches.planted import planted_problem

from pivotal.models.planted import plant
from pivotal.searches.random import RandomUnits

QUICK = RandomUnits(max_units=3, refit=10, trial=5, batch=32)


def test_runs_draw_sets_of_their_own_by_seed() -> None:
    problem = planted_problem()
    found = QUICK.solve(problem, runs=8, seed=0)
    sets = [i.units for i in found.interventions]
    assert all(len(units) == 3 for units in sets) and len(set(sets)) == 8
    later = [i.units for i in QUICK.solve(problem, runs=3, seed=5).interventions]
    assert later == sets[5:]  # run r uses the seed `seed + r`


def test_chance_hardly_ever_finds_the_planted_set() -> None:
    found = QUICK.solve(planted_problem(), runs=20, seed=0)
    assert plant().units not in [i.units for i in found.interventions]


def test_of_many_draws_the_best_is_kept() -> None:
    """A set with a planted unit flips a class; with 40 draws of 3 of 64 units nearly every run meets some."""
    problem = planted_problem()
    one, many = (replace(QUICK, draws=draws).solve(problem, runs=3, seed=0) for draws in (1, 40))
    assert all(a <= b for a, b in zip(many.train_score, one.train_score, strict=True))
    for intervention in many.interventions:
        assert set(intervention.units) & set(plant().units)


def test_draws_in_several_parts_are_the_draws_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    search = replace(QUICK, draws=10)
    whole = search.solve(planted_problem(), runs=2, seed=0)
    monkeypatch.setattr("pivotal.searches.random._AT_ONCE", 6)
    parts = search.solve(planted_problem(), runs=2, seed=0)
    assert [i.units for i in whole.interventions] == [i.units for i in parts.interventions]
