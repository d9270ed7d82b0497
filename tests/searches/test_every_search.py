"""What the searches promise alike, on the planted model, where the answer is known."""

from dataclasses import replace

import pytest
from tests.planted import BOTH_STEPS, Memory, Stopped, planted_problem, same, set_to
from torch import zeros

from pivotal.models.planted import plant
from pivotal.searches import Attribution, Exchange, Greedy, LearnedMask, Reinforce

GREEDY = Greedy(max_units=3, candidates=12, sample=24, polish=20, refit=20, beam=2)
LEARNED = {"max_units": 3, "updates": 60, "kl_weight": 0.0, "margin": 3.0, "refit": 60}


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


@BOTH_STEPS
@pytest.mark.parametrize(
    ("search", "values", "seed"),
    [
        *((Exchange(max_units=3, batch=32), values, 0) for values in ("natural", "unbounded")),
        *(slow(Exchange(max_units=3, batch=32), values, 1) for values in ("natural", "unbounded")),
        (GREEDY, "natural", 0),
        *(slow(GREEDY, "natural", seed) for seed in range(1, 5)),
    ],
)
def test_the_planted_units_are_found(search, values, seed, steps):
    found = search.solve(planted_problem(steps, seed, values=values), runs=2, seed=seed)
    assert [i.units for i in found.interventions] == [plant(seed).units] * 2


@BOTH_STEPS
@pytest.mark.parametrize(
    ("search", "max_kl"),
    [
        (Exchange(max_units=3, batch=32), 0.1),
        (Attribution(max_units=3), 0.1),
        slow(Greedy(max_units=2, candidates=8, sample=24, polish=30, refit=60), 0.1),
        slow(LearnedMask(**LEARNED), 0.3),
        slow(Reinforce(**LEARNED), 0.3),
    ],
)
def test_a_bound_on_kl_is_kept(search, max_kl, steps):
    """Up to a tenth, since it is kept on a sample of the pairs."""
    problem = planted_problem(steps).with_values("unbounded")
    found = [replace(search, max_kl=bound).solve(problem).best for bound in (None, max_kl)]
    free, kept = (float(problem.untouched.mean(problem.run_intervention(one).states)) for one in found)
    assert kept <= 1.1 * max_kl < free


RELAXED = {"max_units": 3, "updates": 30, "refit": 6, "batch": 32}
STOPS = [
    *((Exchange(max_units=3, batch=32), stop) for stop in (3, 4)),
    *(slow(GREEDY, stop) for stop in (1, 2, 3)),
    *((search(**RELAXED), 17) for search in (LearnedMask, Reinforce)),
    *(slow(search(**RELAXED, max_kl=0.3), 17) for search in (LearnedMask, Reinforce)),
]


@pytest.mark.parametrize(("search", "stop"), STOPS)
def test_a_stopped_search_goes_on_to_the_same_end(search, stop, tmp_path):
    problem = planted_problem()
    if isinstance(search, Exchange):  # from units that decide nothing, so that there is much to exchange
        start = set_to(problem, plant().decoys, zeros(1, 2, problem.space.coordinates)).save(
            tmp_path / "start"
        )
        search = replace(search, start=str(start))
    whole, memory = search.solve(problem, runs=2, seed=1), Memory(stop_at=stop)
    with pytest.raises(Stopped):
        search.solve(planted_problem(), runs=2, seed=1, checkpoint=memory)
    again = planted_problem()
    assert same(search.solve(again, runs=2, seed=1, checkpoint=memory), whole)
    assert again.work.nodes < problem.work.nodes, "it went on and did not begin again"


@pytest.mark.slow
@pytest.mark.parametrize(("search", "times"), [(Exchange(max_units=3), 3), (Attribution(max_units=3), 4)])
def test_a_first_look_takes_a_fraction_of_the_work_of_learning_a_mask(search, times):
    looked, learned = planted_problem(), planted_problem()
    assert search.solve(looked).best.units == plant().units
    LearnedMask(max_units=3).solve(learned)
    assert times * looked.work.nodes < learned.work.nodes


@pytest.mark.slow
def test_exact_and_screened_selection_agree_here():
    problem = planted_problem()
    screened, exact = (search.solve(problem).best.units for search in (GREEDY, replace(GREEDY, candidates=0)))
    assert screened == exact
