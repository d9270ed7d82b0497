"""The learned mask on the planted model, where the answer is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.searches.memory import Memory, Stopped
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.models.planted import plant
from pivotal.problem.batch import Outcome
from pivotal.problem.objective import Terms
from pivotal.problem.problem import Problem
from pivotal.questions.phenomena import load_phenomenon
from pivotal.searches.base import Discovery, Progress, budget_of
from pivotal.searches.learned import LearnedMask
from pivotal.units import Steps

PAIRS = load_phenomenon("planted")
QUICK = LearnedMask(max_units=3, updates=30, refit=6, batch=32)
BOTH_STEPS = pytest.mark.parametrize("steps", ["single", "every"])


def planted_problem(steps: Steps = "every", seed: int = 0, pairs: int = 120) -> Problem:
    return Problem(plant(seed).model, PAIRS.sample(pairs), steps=steps)


def same(a: Discovery, b: Discovery) -> bool:
    return (a.interventions, a.train_score, a.stages) == (b.interventions, b.train_score, b.stages)


# -- the theorem --


@BOTH_STEPS
@pytest.mark.slow
def test_the_planted_units_are_recovered_exactly_by_20_seeds_of_20(steps: Steps) -> None:
    problem = planted_problem(steps)
    found = LearnedMask(max_units=3, updates=100, refit=20).solve(problem, runs=20, seed=100)
    assert [i.units for i in found.interventions] == [plant().units] * 20
    for intervention in found.interventions:
        assert problem.run_intervention(intervention).flipped().all()


@pytest.mark.apart
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@BOTH_STEPS
def test_the_units_of_20_planted_models_are_recovered_exactly(steps: Steps, seed: int) -> None:
    problem = planted_problem(steps, seed)
    assert LearnedMask(max_units=3).solve(problem, seed=seed).best.units == plant(seed).units


@pytest.mark.slow
def test_units_that_add_nothing_are_let_go() -> None:
    """With room for six units the hard mask has some that do nothing; the three that decide are handed over."""
    found = LearnedMask(max_units=6).solve(planted_problem(), runs=2)
    assert [i.units for i in found.interventions] == [plant().units] * 2
    assert all(stages["hard"]["units"] > 3 == stages["final"]["units"] for stages in found.stages)


def test_best_is_the_run_with_the_best_training_score() -> None:
    found = replace(QUICK, max_units=1, updates=10).solve(planted_problem(), runs=4)
    assert found.best == found.interventions[found.train_score.index(min(found.train_score))]
    assert {"relaxed", "hard", "refit", "final"} <= set(found.stages[0])


# -- settings --


@pytest.mark.parametrize(
    "settings",
    [
        {"masks": "per-direction"},
        {"support": "half-open"},
        {"objective": "ratio"},
        {"kl_weight": 0.0},
        {"max_kl": 0.5},
        {"max_fractional": 3},
        {"anneal": 0.0, "spare": 1.0},
        {"batch": 0},
        {"refit": 0},
        {"prune": -1.0},
        {"max_units": 0.05},
    ],
    ids=str,
)
def test_every_setting_gives_interventions_within_the_budget(settings: dict[str, Any]) -> None:
    found = replace(QUICK, **{"updates": 12, **settings}).solve(planted_problem(), runs=2)
    for intervention in found.interventions:
        assert 1 <= intervention.active.sum(1).max() <= 3  # 0.05 of 64 units is three
    assert all(torch.isfinite(torch.tensor(found.train_score)))


def test_fewer_positions_measure_kl_in_small_batches_but_not_under_a_bound() -> None:
    paper: dict[str, Any] = LearnedMask.presets["paper"]
    assert (LearnedMask().batch, LearnedMask().terms.kl_nodes) == (64, 24)
    assert (LearnedMask(**paper).batch, LearnedMask(**paper).terms.kl_nodes) == (128, 48)
    assert LearnedMask(batch=0).terms.kl_nodes == LearnedMask(max_kl=0.1).terms.kl_nodes == 48


def test_the_papers_preset_runs_and_finds_units_that_flip() -> None:
    settings: dict[str, Any] = {**LearnedMask.presets["paper"], "updates": 60}
    problem = planted_problem()
    found = LearnedMask(max_units=5, **settings).solve(problem, runs=2)
    assert all(len(i) <= 5 for i in found.interventions)
    assert set(found.stages[0]) == {"relaxed", "hard", "final"}  # the mask and values as they come out
    assert found.stages[0]["hard"] == found.stages[0]["final"]


@pytest.mark.slow
def test_masks_per_direction_may_use_a_unit_in_one_direction_only() -> None:
    problem = planted_problem("single")
    one = PAIRS.__class__("one", PAIRS.labels, tuple(p for p in problem.pairs if p.label == "singular"))
    found = LearnedMask(max_units=3, masks="per-direction").solve(problem.on(one))
    # Nothing is to be flipped to singular, so pruning leaves that direction with the one unit that a mask must have.
    active = found.best.active
    assert active[0].sum() == 1 and active[1].sum() == 3
    assert {u for u, on in zip(found.best.units, active[1], strict=True) if on} == set(plant().units)


@pytest.mark.slow
def test_kl_is_kept_below_its_bound() -> None:
    problem = planted_problem()
    free = replace(QUICK, updates=60, kl_weight=0.0, margin=3.0, refit=60)
    kls = []
    for search in (free, replace(free, max_kl=0.3)):
        best = search.solve(problem).best
        kls.append(problem.mean_kl(problem.run_intervention(best).states).item())
    assert kls[1] <= 0.3 * 1.1 < kls[0]  # the bound is kept on a sample of the pairs


@pytest.mark.parametrize(
    ("asked", "units", "budget"),
    [(3, 64, 3), (3.0, 64, 3), (0.05, 64, 3), (0.001, 64, 1), (64, 64, 64), (1, 1, 1)],
)
def test_a_budget_is_a_number_or_a_fraction(asked: float, units: int, budget: int) -> None:
    assert budget_of(asked, units) == budget


@pytest.mark.parametrize(
    ("search", "runs", "message"),
    [
        ({"max_units": 0}, 1, "at least one unit, but max_units is 0"),
        ({"max_units": -2}, 1, "at least one unit"),
        ({"max_units": float("nan")}, 1, "at least one unit"),
        ({"max_units": 65}, 1, "There are 64 units in the sites searched, but max_units is 65"),
        ({}, 0, "at least one run, but runs is 0"),
        ({"updates": 0}, 1, "updates must be at least one"),
        ({"anneal": 1.5}, 1, "between 0 and 1, but it is 1.5"),
        ({"max_kl": 0.0}, 1, "must be above 0"),
        ({"max_fractional": 99}, 1, "64 units"),
        ({"max_fractional": 0}, 1, "max_fractional must be above 0"),
        ({"spare": 0.5}, 1, "spare must be 1 or more"),
        ({"batch": -1}, 1, "0 or more"),
        ({"refit": -5}, 1, "0 or more"),
    ],
)
def test_impossible_requests_are_refused(search: dict[str, Any], runs: int, message: str) -> None:
    with pytest.raises(PivotalError, match=message):
        replace(QUICK, **search).solve(planted_problem(), runs=runs)


# -- seeds, interruptions, accidents --


def test_the_same_seed_gives_the_same_and_another_seed_another() -> None:
    one, two, other = (
        replace(QUICK, updates=15).solve(planted_problem(), runs=2, seed=seed) for seed in (5, 5, 6)
    )
    assert same(one, two)
    # Both end in the planted units at the bound, so it is on the way there that they differ.
    assert one.stages[0]["relaxed"] != other.stages[0]["relaxed"] != one.stages[1]["relaxed"]


@pytest.mark.parametrize(
    "search", [QUICK, replace(QUICK, max_kl=0.3, max_fractional=3)], ids=["plain", "constrained"]
)
@pytest.mark.slow
def test_a_run_killed_in_the_middle_ends_in_the_same_result(search: LearnedMask) -> None:
    whole = search.solve(planted_problem(), runs=2, seed=1)
    memory = Memory(due_at=17)

    class Killed(Exception):
        pass

    def die(progress: Progress) -> None:
        if progress.update == 25:
            raise Killed

    with pytest.raises(Killed):
        search.solve(planted_problem(), runs=2, seed=1, progress=die, checkpoint=memory)
    state = memory.load()
    assert state is not None and state["update"] == 17
    updates: list[int] = []
    resumed = search.solve(
        planted_problem(), runs=2, seed=1, progress=lambda p: updates.append(p.update), checkpoint=memory
    )
    assert updates[0] == 18 and same(resumed, whole)


def test_a_stopped_run_keeps_what_it_reached_and_resumes() -> None:
    problem, memory = planted_problem(), Memory(stop_at=20)
    with pytest.raises(Stopped):
        QUICK.solve(problem, runs=2, seed=1, checkpoint=memory)
    state = memory.load()
    assert state is not None and state["update"] == 20
    reached = state["interventions"]
    assert len(reached) == 2
    for intervention in reached:
        assert problem.run_intervention(intervention).log_ratio.isfinite().all()
    resumed = QUICK.solve(planted_problem(), runs=2, seed=1, checkpoint=memory)
    assert same(resumed, QUICK.solve(planted_problem(), runs=2, seed=1))


def test_a_stopped_run_keeps_to_the_budget() -> None:
    memory = Memory(stop_at=5)
    with pytest.raises(Stopped):
        QUICK.solve(planted_problem(), checkpoint=memory)
    state = memory.load()
    assert state is not None and len(state["interventions"][0]) <= 3


def test_a_loss_that_is_no_number_stops_the_search_and_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    loss, calls = Terms.loss, [0]

    def breaks(terms: Terms, outcome: Outcome) -> Tensor:
        calls[0] += 1
        broken = loss(terms, outcome)
        return torch.where(torch.arange(len(broken)) == 1, torch.nan, broken) if calls[0] == 8 else broken

    monkeypatch.setattr(Terms, "loss", breaks)
    with pytest.raises(
        PivotalError, match=r"must be a finite number, but it was not at update 8 of run 1\. Lower"
    ):
        QUICK.solve(planted_problem(), runs=3)
    assert calls[0] < QUICK.updates


def test_progress_tells_of_every_run() -> None:
    rows: list[Progress] = []
    QUICK.solve(planted_problem(), runs=2, progress=rows.append)
    learning = [row for row in rows if row.phase == "learn"]
    assert [row.update for row in learning] == sorted({row.update for row in learning})
    assert learning[-1].update == learning[-1].updates == QUICK.updates
    for row in learning:
        assert len(row.loss) == len(row.units) == len(row.accuracy) == 2
    # The allowed number of units shrinks, and the expected number follows.
    assert learning[0].units[0] > 40 and learning[-1].units[0] < 35


@BOTH_STEPS
def test_an_exchange_at_the_end_does_no_harm(steps: Steps) -> None:
    problem = planted_problem(steps)
    plain, exchanged = (replace(QUICK, exchange=n).solve(problem) for n in (0, 2))
    assert exchanged.train_score[0] <= plain.train_score[0] * 1.01
    assert "exchanged" in exchanged.stages[0] and "exchanged" not in plain.stages[0]
