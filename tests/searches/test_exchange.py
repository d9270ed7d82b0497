"""The default search on the planted model, where the answer is known."""

import subprocess
import sys
from contextlib import suppress
from dataclasses import replace

import pytest
import torch
from tests.planted import BOTH_STEPS, PAIRS, Memory, Stopped, planted_problem, same, set_to

from pivotal import Intervention, PivotalError, Problem
from pivotal.models.planted import plant
from pivotal.searches import Exchange, LearnedMask
from pivotal.searches.base import interventions_of
from pivotal.units import Unit

SEARCH = Exchange(max_units=3, batch=32)


def decoys_of(problem: Problem, units: tuple[Unit, ...]) -> Intervention:
    """An intervention on units that decide nothing."""
    return set_to(problem, units, torch.zeros(1, 2, problem.space.coordinates))


@BOTH_STEPS
@pytest.mark.parametrize("values", ["natural", "unbounded"])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_the_planted_units_are_found(steps, values, seed):
    found = SEARCH.solve(planted_problem(steps, seed, values=values), runs=2, seed=seed)
    assert [i.units for i in found.interventions] == [plant(seed).units] * 2


def test_swaps_replace_units_that_decide_nothing(tmp_path):
    problem = planted_problem("every")
    decoys_of(problem, plant().decoys).save(tmp_path / "start")
    search = replace(SEARCH, start=str(tmp_path / "start"))
    assert search.solve(problem).best.units == plant().units
    assert replace(search, rounds=0, prune=-1.0).solve(problem).best.units == plant().decoys
    assert len(replace(search, max_units=2).solve(problem).best) == 2
    with pytest.raises(PivotalError, match="same question"):
        search.solve(planted_problem("single"))


def test_a_swap_keeps_the_directions_in_which_a_unit_acts(tmp_path):
    problem = planted_problem("every")
    mask = torch.zeros(1, 2, 64, dtype=torch.bool)
    mask[0, 0, problem.space.flat(plant().decoys[0])] = True
    interventions_of(problem, mask, torch.zeros(1, 2, 64))[0].save(tmp_path / "start")
    (found,) = replace(SEARCH, start=str(tmp_path / "start")).solve(problem).interventions
    assert found.units[0] in plant().units and found.active.tolist() == [[True], [False]]


def test_units_that_add_nothing_are_removed():
    found = replace(SEARCH, max_units=5).solve(planted_problem("every")).best
    assert found.units == plant().units


def test_a_set_of_all_units_has_no_swaps():
    problem = Problem(plant().model, PAIRS.sample(60), steps="every", sites="hidden.0")
    everyone = replace(SEARCH, max_units=len(problem.space), prune=-1.0).solve(problem).best
    assert len(everyone) == len(problem.space)


@BOTH_STEPS
def test_a_bound_on_kl_is_kept(steps):
    problem = planted_problem(steps).with_values("unbounded")
    found = [replace(SEARCH, max_kl=bound).solve(problem) for bound in (None, 0.1)]
    free, kept = (one.stages[0]["final"]["kl"] for one in found)
    assert kept <= 0.11 < free


def test_only_the_drawn_pairs_differ_between_runs():
    """With all training pairs in every sample there is nothing to draw, so that all runs are the same."""
    search = replace(SEARCH, prefixes=0, sample=0, batch=0)
    one, other = search.solve(planted_problem("every"), runs=2, seed=3).interventions
    assert one == other


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_a_stopped_search_goes_on_to_the_same_end(stop, tmp_path):
    problem = planted_problem("every")
    decoys_of(problem, plant().decoys).save(tmp_path / "start")
    search = replace(SEARCH, start=str(tmp_path / "start"))
    whole, memory = search.solve(problem, runs=2), Memory(stop_at=stop)
    with suppress(Stopped):
        search.solve(planted_problem("every"), runs=2, checkpoint=memory)
    assert same(search.solve(planted_problem("every"), runs=2, checkpoint=memory), whole)


@pytest.mark.slow
def test_it_takes_a_fraction_of_the_work_of_learning_a_mask():
    fast, learned = planted_problem(), planted_problem()
    assert Exchange(max_units=3).solve(fast).best.units == plant().units
    LearnedMask(max_units=3).solve(learned)
    assert 3 * fast.work.nodes < learned.work.nodes


@pytest.mark.slow
def test_a_run_imports_neither_the_compiler_of_torch_nor_charts(tmp_path):
    """They take more than a second. torch's own optimisers import its compiler."""
    code = (
        "import sys, pivotal; pivotal.find('planted', 'planted', controls=2, out=sys.argv[1]); "
        "assert not {'torch._dynamo', 'altair'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "run")], check=True)
