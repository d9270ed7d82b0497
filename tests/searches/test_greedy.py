"""Forward selection and exchange on the planted model, where the answer is known."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.searches.planted import BOTH_STEPS, PAIRS, Memory, Stopped, planted_problem

from pivotal.errors import PivotalError
from pivotal.models.planted import plant
from pivotal.problem.objective import Terms
from pivotal.problem.problem import Problem
from pivotal.searches.base import Search, interventions_of
from pivotal.searches.exchange import BestOf, Exchange
from pivotal.searches.greedy import Greedy
from pivotal.searches.random import RandomUnits
from pivotal.searches.tools.swaps import Exchanger
from pivotal.testing import check_search
from pivotal.units import Steps

QUICK = Greedy(max_units=3, candidates=12, sample=24, polish=20, refit=20, beam=2)
SWAPS = Exchange(max_units=3, candidates=12, sample=24, polish=20, refit=20, finalists=3, start="random")
EXCHANGER = Exchanger(Terms(), candidates=16, sample=24, polish=20)
EACH = pytest.mark.parametrize(
    "search", [pytest.param(QUICK, id="greedy"), pytest.param(SWAPS, id="exchange", marks=pytest.mark.slow)]
)
"""An exchange takes twice as long."""


@BOTH_STEPS
@EACH
@pytest.mark.slow
def test_it_is_a_search(search: Greedy | Exchange, steps: Steps) -> None:
    check_search(search, steps=steps)


@EACH
@BOTH_STEPS
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))])
def test_the_planted_units_are_found(search: Search, steps: Steps, seed: int) -> None:
    found = search.solve(planted_problem(steps, seed), runs=2, seed=seed)
    assert [i.units for i in found.interventions] == [plant(seed).units] * 2


@pytest.mark.slow
def test_exact_and_screened_selection_agree_here() -> None:
    problem = planted_problem("every")
    screened = QUICK.solve(problem)
    exact = Greedy(max_units=3, candidates=0, sample=24, polish=20, refit=20, beam=2).solve(problem)
    assert screened.best.units == exact.best.units


@pytest.mark.slow
def test_a_bound_on_kl_is_kept() -> None:
    problem = planted_problem("every")
    search = Greedy(max_units=2, max_kl=0.1, candidates=8, sample=24, polish=30, refit=60)
    outcome = problem.run_intervention(search.solve(problem).best)
    assert float(problem.mean_kl(outcome.states)) <= 0.11


@BOTH_STEPS
def test_an_exchange_ends_at_a_set_that_is_no_worse(steps: Steps) -> None:
    problem = planted_problem(steps)
    decoys = [problem.space.flat(unit) for unit in plant().decoys]
    mask = torch.zeros(2, 64, dtype=torch.bool)
    mask[:, decoys] = True
    (improved,) = EXCHANGER.improve(problem, mask[None], torch.zeros(1, 2, 64), seed=0)
    planted = [problem.space.flat(unit) for unit in plant().units]
    assert improved.here.mask[0].any(0).nonzero()[:, 0].tolist() == planted


def test_an_exchange_of_all_units_ends_where_it_begins() -> None:
    problem = Problem(plant().model, PAIRS.sample(60), steps="every", sites="hidden.0")
    everyone = torch.ones(1, 2, len(problem.space), dtype=torch.bool)
    start = torch.zeros(1, 2, problem.space.coordinates)
    (walk,) = Exchanger(Terms(), sample=24, polish=5).improve(problem, everyone, start, seed=0)
    assert walk.over and bool(walk.here.mask.all())


@pytest.mark.slow
def test_an_exchange_from_an_intervention_in_a_folder(tmp_path: Path) -> None:
    problem = planted_problem("every")
    mask = torch.zeros(1, 2, 64, dtype=torch.bool)
    mask[:, :, [problem.space.flat(unit) for unit in plant().decoys]] = True
    (start,) = interventions_of(problem, mask, torch.zeros(1, 2, 64))
    start.save(tmp_path / "start")
    assert replace(SWAPS, start=str(tmp_path / "start")).solve(problem).best.units == plant().units
    with pytest.raises(PivotalError, match=r"keeps the number of units.* has 3 units and max_units is 2"):
        Exchange(max_units=2, start=str(tmp_path / "start")).solve(problem)
    with pytest.raises(PivotalError, match="same question"):
        Exchange(max_units=3, start=str(tmp_path / "start")).solve(planted_problem("single"))


@pytest.mark.parametrize("max_kl", [None, 0.1])
@pytest.mark.slow
def test_the_best_of_several_starts_is_chosen_run_by_run(max_kl: float | None) -> None:
    problem = planted_problem("every")
    parts = (
        Greedy(max_units=3, candidates=4, sample=12, polish=5, refit=5, max_kl=max_kl),
        RandomUnits(max_units=3, refit=5, max_kl=max_kl),
    )
    alone = [part.solve(problem, runs=2).train_score for part in parts]
    assert BestOf(parts).solve(problem, runs=2).train_score == tuple(map(min, *alone))


@pytest.mark.slow
def test_an_exchange_from_several_starts_is_no_worse_than_any_of_them() -> None:
    problem = planted_problem("every")
    search = replace(SWAPS, start="random + attribution")
    begun = [replace(SWAPS, start=name)._start() for name in ("random", "attribution")]
    found = search.solve(problem, runs=2)
    for start in begun:
        assert isinstance(start, Search)
        others = start.solve(problem, runs=2).train_score
        assert all(mine <= other + 1e-6 for mine, other in zip(found.train_score, others, strict=True))


def test_a_swap_keeps_the_directions_in_which_a_unit_acts() -> None:
    problem = planted_problem("every")
    mask = torch.zeros(2, 64, dtype=torch.bool)
    mask[0, problem.space.flat(plant().decoys[0])] = True
    (improved,) = EXCHANGER.improve(problem, mask[None], torch.zeros(1, 2, 64), seed=0)
    assert improved.here.mask[0, 0].sum() == 1 and not improved.here.mask[0, 1].any()


@EACH
@pytest.mark.parametrize("stop", [1, 2, 3])
@pytest.mark.slow
def test_a_stopped_search_goes_on_to_the_same_end(search: Greedy | Exchange, stop: int) -> None:
    whole = search.solve(planted_problem("every"), runs=2)
    memory = Memory(stop_at=stop)
    with suppress(Stopped):
        search.solve(planted_problem("every"), runs=2, checkpoint=memory)
    again = search.solve(planted_problem("every"), runs=2, checkpoint=memory)
    assert again.interventions == whole.interventions
    assert again.train_score == whole.train_score
