"""Forward selection on the planted model, where the answer is known."""

from contextlib import suppress

import pytest
from tests.planted import BOTH_STEPS, Memory, Stopped, planted_problem

from pivotal.models.planted import plant
from pivotal.searches import Greedy

QUICK = Greedy(max_units=3, candidates=12, sample=24, polish=20, refit=20, beam=2)


@BOTH_STEPS
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))])
def test_the_planted_units_are_found(steps, seed):
    found = QUICK.solve(planted_problem(steps, seed), runs=2, seed=seed)
    assert [i.units for i in found.interventions] == [plant(seed).units] * 2


@pytest.mark.slow
def test_exact_and_screened_selection_agree_here():
    problem = planted_problem("every")
    screened = QUICK.solve(problem)
    exact = Greedy(max_units=3, candidates=0, sample=24, polish=20, refit=20, beam=2).solve(problem)
    assert screened.best.units == exact.best.units


@pytest.mark.slow
def test_a_bound_on_kl_is_kept():
    problem = planted_problem("every")
    search = Greedy(max_units=2, max_kl=0.1, candidates=8, sample=24, polish=30, refit=60)
    outcome = problem.run_intervention(search.solve(problem).best)
    assert float(problem.untouched.mean(outcome.states)) <= 0.11


@pytest.mark.parametrize("stop", [1, 2, 3])
@pytest.mark.slow
def test_a_stopped_search_goes_on_to_the_same_end(stop):
    whole = QUICK.solve(planted_problem("every"), runs=2)
    memory = Memory(stop_at=stop)
    with suppress(Stopped):
        QUICK.solve(planted_problem("every"), runs=2, checkpoint=memory)
    again = QUICK.solve(planted_problem("every"), runs=2, checkpoint=memory)
    assert again.interventions == whole.interventions
    assert again.train_score == whole.train_score
