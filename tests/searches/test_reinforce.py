"""REINFORCE on the planted model, and its estimator against the gradient that can be computed there by hand."""

from __future__ import annotations

from collections.abc import Callable
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
from pivotal.searches.base import Discovery, Progress
from pivotal.searches.learned import LearnedMask
from pivotal.searches.reinforce import Reinforce
from pivotal.units import Steps

PAIRS = load_phenomenon("planted")
QUICK = Reinforce(max_units=3, updates=30, samples=2, refit=6, batch=32)
BOTH_STEPS = pytest.mark.parametrize("steps", ["single", "every"])


def planted_problem(steps: Steps = "every", seed: int = 0) -> Problem:
    return Problem(plant(seed).model, PAIRS.sample(120), steps=steps)


def same(a: Discovery, b: Discovery) -> bool:
    return (a.interventions, a.train_score, a.stages) == (b.interventions, b.train_score, b.stages)


# -- the theorem --


@BOTH_STEPS
@pytest.mark.slow
def test_the_planted_units_are_recovered_exactly(steps: Steps) -> None:
    problem = planted_problem(steps)
    found = Reinforce(max_units=3, updates=200, refit=20, batch=32).solve(problem, runs=6, seed=100)
    assert [i.units for i in found.interventions] == [plant().units] * 6
    assert problem.run_intervention(found.best).flipped().all()


def test_a_run_does_not_depend_on_how_many_go_along() -> None:
    alone, together = (QUICK.solve(planted_problem(), runs=runs, seed=3) for runs in (1, 3))
    assert alone.interventions[0].units == together.interventions[0].units
    assert alone.stages[0]["relaxed"] == pytest.approx(together.stages[0]["relaxed"], rel=1e-3)
    assert together.stages[0]["relaxed"] != together.stages[1]["relaxed"]


# -- settings --


@pytest.mark.parametrize(
    "settings",
    [
        {"objective": "ratio"},
        {"kl_weight": 0.0},
        {"max_kl": 0.5},
        {"anneal": 0.0, "spare": 1.0},
        {"batch": 0},
        {"samples": 1},
        {"refit": 0},
        {"prune": -1.0},
        {"max_units": 0.05},
    ],
    ids=str,
)
def test_every_setting_gives_interventions_within_the_budget(settings: dict[str, Any]) -> None:
    found = replace(QUICK, **{"updates": 12, **settings}).solve(planted_problem(), runs=2)
    for intervention in found.interventions:
        assert 1 <= len(intervention) <= 3  # 0.05 of 64 units is three
    assert all(torch.isfinite(torch.tensor(found.train_score)))


def test_the_papers_preset_hands_over_what_was_learned() -> None:
    settings: dict[str, Any] = {**Reinforce.presets["paper"], "updates": 60}
    found = Reinforce(max_units=5, **settings).solve(planted_problem(), runs=2)
    assert set(found.stages[0]) == {"relaxed", "hard", "final"}
    assert found.stages[0]["hard"] == found.stages[0]["final"]


@pytest.mark.slow
def test_the_papers_preset_recovers_the_planted_units() -> None:
    settings: dict[str, Any] = {**Reinforce.presets["paper"], "updates": 1500}
    found = Reinforce(max_units=3, **settings).solve(planted_problem("single"), runs=4)
    assert [i.units for i in found.interventions] == [plant().units] * 4
    # Nothing died on the way: the coins of three units still come up heads.
    assert all(2.5 < stages["relaxed"]["units"] < 3.5 for stages in found.stages)


def test_bounds_are_damped_as_in_the_learned_mask() -> None:
    """The gradients of KL are the same in both searches; only the number of units has a noisier one here."""
    assert Reinforce().damping > LearnedMask().damping
    assert Reinforce().bound_rates == LearnedMask().bound_rates


def test_a_bound_on_kl_lowers_it() -> None:
    free = replace(QUICK, updates=60, kl_weight=0.0, margin=3.0, refit=0, prune=-1.0)
    kls = []
    for search in (free, replace(free, max_kl=0.1)):
        problem = planted_problem()
        best = search.solve(problem).best
        kls.append(problem.mean_kl(problem.run_intervention(best).states).item())
    assert kls[1] < 0.7 * kls[0]


@pytest.mark.parametrize(
    ("settings", "runs", "message"),
    [
        ({"max_units": 65}, 1, "There are 64 units in the sites searched, but max_units is 65"),
        ({}, 0, "at least one run, but runs is 0"),
        ({"updates": 0}, 1, "updates must be at least one, but it is 0"),
        ({"samples": 0}, 1, "samples must be at least one"),
        ({"memory": 1.0}, 1, "memory must be 0 or more and below 1"),
        ({"anneal": 1.5}, 1, "between 0 and 1, but it is 1.5"),
        ({"mask_rate": 0.0}, 1, "mask_rate must be above 0"),
        ({"spare": 0.5}, 1, "spare must be 1 or more"),
        ({"refit": -1}, 1, "refit must be 0 or more"),
        ({"max_kl": 0.0}, 1, "max_kl must be above 0"),
        ({"objective": "other"}, 1, "objective cannot be 'other'"),
    ],
)
def test_impossible_requests_are_refused(settings: dict[str, Any], runs: int, message: str) -> None:
    with pytest.raises(PivotalError, match=message):
        replace(QUICK, **settings).solve(planted_problem(), runs=runs)


# -- seeds, interruptions, accidents --


def stop_at(update: int, how: type[BaseException]) -> Callable[[Progress], None]:
    def stop(progress: Progress) -> None:
        if progress.update == update:
            raise how

    return stop


@pytest.mark.parametrize("search", [QUICK, replace(QUICK, max_kl=0.3)], ids=["plain", "constrained"])
def test_a_run_killed_in_the_middle_ends_in_the_same_result(search: Reinforce) -> None:
    memory = Memory(due_at=17)
    with pytest.raises(SystemError):
        search.solve(planted_problem(), runs=2, seed=1, progress=stop_at(25, SystemError), checkpoint=memory)
    updates: list[int] = []
    resumed = search.solve(
        planted_problem(), runs=2, seed=1, progress=lambda p: updates.append(p.update), checkpoint=memory
    )
    assert updates[0] == 18 and same(resumed, search.solve(planted_problem(), runs=2, seed=1))


def test_a_stopped_run_keeps_what_it_reached() -> None:
    problem, memory = planted_problem(), Memory(stop_at=20)
    with pytest.raises(Stopped):
        QUICK.solve(problem, runs=2, checkpoint=memory)
    state = memory.load()
    assert state is not None and state["update"] == 20
    assert [len(i) for i in state["interventions"]] == [3, 3]


def test_a_loss_that_is_no_number_stops_the_search_and_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    loss, calls = Terms.loss, [0]

    def breaks(terms: Terms, outcome: Outcome) -> Tensor:
        calls[0] += 1
        return loss(terms, outcome) * (torch.nan if calls[0] == 5 else 1)

    monkeypatch.setattr(Terms, "loss", breaks)
    with pytest.raises(PivotalError, match=r"not at update 5 of run 0 \(and of 1 more\)\. Lower"):
        QUICK.solve(planted_problem(), runs=2)
