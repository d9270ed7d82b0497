"""REINFORCE on the planted model, and its estimator against the gradient that can be computed there by hand."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch

from pivotal.errors import PivotalError
from pivotal.models.planted import plant
from pivotal.problem.problem import Problem
from pivotal.questions.phenomena import load_phenomenon
from pivotal.searches.base import Discovery, Progress
from pivotal.searches.reinforce import Reinforce, _Learner, likeliest
from pivotal.units import Steps

PAIRS = load_phenomenon("planted")
QUICK = Reinforce(max_units=3, updates=30, samples=2, refit=6, batch=32)
BOTH_STEPS = pytest.mark.parametrize("steps", ["single", "every"])


def planted_problem(steps: Steps = "every", seed: int = 0) -> Problem:
    return Problem(plant(seed).model, PAIRS.sample(120), steps=steps)


class Memory:
    """A checkpoint that goes through torch's files, as a run folder's does, and is due at one update."""

    def __init__(self, due_at: int | None = None) -> None:
        self._due_at, self._asked = due_at, 0
        self._content: bytes | None = None

    def load(self) -> dict[str, Any] | None:
        return None if self._content is None else torch.load(io.BytesIO(self._content), weights_only=False)

    def save(self, state: dict[str, Any]) -> None:
        file = io.BytesIO()
        torch.save(state, file)
        self._content = file.getvalue()

    def due(self) -> bool:
        self._asked += 1
        return self._asked == self._due_at


def same(a: Discovery, b: Discovery) -> bool:
    return (a.interventions, a.train_score, a.stages) == (b.interventions, b.train_score, b.stages)


# -- the theorem --


@BOTH_STEPS
def test_the_planted_units_are_recovered_exactly(steps: Steps) -> None:
    problem = planted_problem(steps)
    found = Reinforce(max_units=3, updates=200, refit=20, batch=32).solve(problem, runs=6, seed=100)
    assert [i.units for i in found.interventions] == [plant().units] * 6
    assert problem.run_intervention(found.best).flipped().all()


def test_the_estimator_is_the_gradient_of_the_expected_loss() -> None:
    """E[cost(m) * d log p(m)], summed over all masks of four units with their probabilities, is d E[cost] / d logits,
    whatever the control variate: it is the same for all masks, and E[d log p(m)] = 0."""
    masks = torch.tensor(list(product([0.0, 1.0], repeat=4)))
    cost = torch.randn(16, generator=torch.Generator().manual_seed(0))
    logits = torch.tensor([[0.3, -1.0, 0.0, 2.0]], requires_grad=True)
    p = logits.sigmoid()
    chance = (masks * p + (1 - masks) * (1 - p)).prod(1)
    (exact,) = torch.autograd.grad(chance @ cost, logits, retain_graph=True)

    learner = _Learner(QUICK, planted_problem(), 3, 1, 0)
    learner.logits, learner.update = logits, 1
    estimate = torch.zeros_like(logits)
    for mask, c, weight in zip(masks, cost, chance.detach(), strict=True):
        learner.control = torch.tensor([7.0])
        term = learner._score_function(mask[None, None], c.view(1, 1))
        estimate += weight * torch.autograd.grad(term.sum(), logits)[0]
    torch.testing.assert_close(estimate, exact)


def test_the_control_variate_follows_the_loss() -> None:
    learner = _Learner(replace(QUICK, memory=0.75), planted_problem(), 3, 1, 0)
    cost = torch.tensor([[1.0, 3.0]])
    learner._follow(cost)
    assert learner.control.tolist() == [2.0]  # the first loss is all there is to go by
    learner.update = 1
    learner._follow(cost + 4)
    assert learner.control.tolist() == [3.0]


def test_the_likeliest_units_are_taken_up_to_the_budget() -> None:
    assert likeliest(torch.tensor([[-3.0, -9.0, -2.0], [4.0, 5.0, 6.0]]), 2).int().tolist() == [
        [1, 0, 1],
        [0, 1, 1],
    ]


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
        ({"objective": "other"}, 1, "objective is soft-margin or ratio, but it is 'other'"),
    ],
)
def test_impossible_requests_are_refused(settings: dict[str, Any], runs: int, message: str) -> None:
    with pytest.raises(PivotalError, match=message):
        replace(QUICK, **settings).solve(planted_problem(), runs=runs)


@pytest.mark.parametrize(
    "search", [QUICK, replace(QUICK, refit=0, prune=-1.0, spare=1.0)], ids=["all", "bare"]
)
def test_a_search_within_a_budget_takes_about_that(search: Reinforce) -> None:
    problem = planted_problem()
    search.within(problem, 2, 100_000).solve(problem, runs=2)
    assert problem.work.forward + problem.work.backward == pytest.approx(100_000, rel=0.1)


def test_no_budget_takes_all_updates_away() -> None:
    assert QUICK.within(planted_problem(), 2, 1).updates == 20


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


def test_an_interrupted_run_keeps_what_it_reached() -> None:
    problem, memory = planted_problem(), Memory()
    with pytest.raises(KeyboardInterrupt):
        QUICK.solve(problem, runs=2, progress=stop_at(20, KeyboardInterrupt), checkpoint=memory)
    state = memory.load()
    assert state is not None and state["update"] == 20
    assert [len(i) for i in state["interventions"]] == [3, 3]


def test_a_loss_that_is_no_number_stops_the_search() -> None:
    learner = _Learner(QUICK, planted_problem(), 3, 3, 0)
    with torch.no_grad():
        learner.values[1] = torch.nan
    with pytest.raises(PivotalError, match=r"by update 1 it was not in run 1\. Lower"):
        learner.run(None, None)
