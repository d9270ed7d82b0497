"""The searches that learn a distribution over masks, on the planted model, and settings that no search can have."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.planted import BOTH_STEPS, PAIRS, Memory, Stopped, planted_problem, same
from torch import Tensor

from pivotal import PivotalError
from pivotal.models.planted import plant
from pivotal.problem.batch import Outcome
from pivotal.problem.objective import Terms
from pivotal.searches import Attribution, Greedy, LearnedMask, Progress, Reinforce
from pivotal.searches.base import budget_of
from pivotal.searches.learned import RelaxedSearch

LEARNED = LearnedMask(max_units=3, updates=30, refit=6, batch=32)
REINFORCE = Reinforce(max_units=3, updates=30, samples=2, refit=6, batch=32)
EACH = pytest.mark.parametrize("search", [LEARNED, REINFORCE], ids=["learned", "reinforce"])

SETTINGS: list[dict[str, Any]] = [
    *({"loss": "ratio"}, {"kl_weight": 0.0}, {"max_kl": 0.5}, {"anneal": 0.0, "spare": 1.0}),
    *({"batch": 0}, {"refit": 0, "prune": -1.0}, {"max_units": 0.05}),
]

# -- the theorem --


@BOTH_STEPS
@pytest.mark.slow
def test_the_planted_units_are_recovered_exactly_by_20_seeds_of_20(steps):
    problem = planted_problem(steps)
    found = LearnedMask(max_units=3, updates=100, refit=20).solve(problem, runs=20, seed=100)
    assert [i.units for i in found.interventions] == [plant().units] * 20
    for intervention in found.interventions:
        assert problem.run_intervention(intervention).flipped().all()


@pytest.mark.apart
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@BOTH_STEPS
def test_the_units_of_20_planted_models_are_recovered_exactly(steps, seed):
    problem = planted_problem(steps, seed)
    assert LearnedMask(max_units=3).solve(problem, seed=seed).best.units == plant(seed).units


@BOTH_STEPS
@pytest.mark.slow
def test_reinforce_recovers_the_planted_units_exactly(steps):
    problem = planted_problem(steps)
    found = Reinforce(max_units=3, updates=200, refit=20, batch=32).solve(problem, runs=6, seed=100)
    assert [i.units for i in found.interventions] == [plant().units] * 6
    assert problem.run_intervention(found.best).flipped().all()


@pytest.mark.slow
def test_the_papers_reinforce_recovers_the_planted_units():
    settings: dict[str, Any] = {**Reinforce.presets["paper"], "updates": 1500}
    found = Reinforce(max_units=3, **settings).solve(planted_problem("single"), runs=4)
    assert [i.units for i in found.interventions] == [plant().units] * 4
    # Nothing died on the way: the coins of three units still come up heads.
    assert all(2.5 < stages["relaxed"]["units"] < 3.5 for stages in found.stages)


@pytest.mark.slow
def test_units_that_add_nothing_are_let_go():
    """With room for six units the hard mask has some that do nothing; the three that decide are handed over."""
    found = LearnedMask(max_units=6).solve(planted_problem(), runs=2)
    assert [i.units for i in found.interventions] == [plant().units] * 2
    assert all(stages["hard"]["units"] > 3 == stages["final"]["units"] for stages in found.stages)


def test_best_is_the_run_with_the_best_training_score():
    found = replace(LEARNED, max_units=1, updates=10).solve(planted_problem(), runs=4)
    assert found.best == found.interventions[found.train_score.index(min(found.train_score))]
    assert {"relaxed", "hard", "refit", "final"} <= set(found.stages[0])


def test_a_run_does_not_depend_on_how_many_go_along():
    alone, together = (REINFORCE.solve(planted_problem(), runs=runs, seed=3) for runs in (1, 3))
    assert alone.interventions[0].units == together.interventions[0].units
    assert alone.stages[0]["relaxed"] == pytest.approx(together.stages[0]["relaxed"], rel=1e-3)
    assert together.stages[0]["relaxed"] != together.stages[1]["relaxed"]


# -- settings --


@pytest.mark.parametrize(
    ("search", "settings"),
    [
        *itertools.product((LEARNED, REINFORCE), SETTINGS),
        (LEARNED, {"masks": "per-direction"}),
        (LEARNED, {"support": "half-open", "max_fractional": 3}),
        (REINFORCE, {"samples": 1}),
    ],
    ids=lambda value: value.name if isinstance(value, RelaxedSearch) else str(value),
)
def test_every_setting_keeps_to_the_budget(search, settings):
    found = replace(search, **{"updates": 8, **settings}).solve(planted_problem(), runs=2)
    for intervention in found.interventions:
        assert 1 <= intervention.active.sum(1).max() <= 3  # 0.05 of 64 units is three
    assert all(torch.isfinite(torch.tensor(found.train_score)))


def test_fewer_positions_measure_kl_in_small_batches_but_not_under_a_bound():
    paper: dict[str, Any] = LearnedMask.presets["paper"]
    assert (LearnedMask().batch, LearnedMask().terms.kl_nodes) == (64, 24)
    assert (LearnedMask(**paper).batch, LearnedMask(**paper).terms.kl_nodes) == (128, 48)
    assert LearnedMask(batch=0).terms.kl_nodes == LearnedMask(max_kl=0.1).terms.kl_nodes == 48


@EACH
def test_the_papers_preset_hands_over_what_was_learned(search):
    settings: dict[str, Any] = {**type(search).presets["paper"], "updates": 40}
    found = type(search)(max_units=5, **settings).solve(planted_problem(), runs=2)
    assert all(len(i) <= 5 for i in found.interventions)
    assert set(found.stages[0]) == {"relaxed", "hard", "final"}  # the mask and values as they come out
    assert found.stages[0]["hard"] == found.stages[0]["final"]


@pytest.mark.slow
def test_masks_per_direction_may_use_a_unit_in_one_direction_only():
    problem = planted_problem("single")
    one = PAIRS.__class__("one", PAIRS.labels, tuple(p for p in problem.pairs if p.label == "singular"))
    found = LearnedMask(max_units=3, masks="per-direction").solve(problem.on(one))
    # Nothing is to be flipped to singular, so pruning leaves that direction with the one unit that a mask must have.
    active = found.best.active
    assert active[0].sum() == 1 and active[1].sum() == 3
    assert {u for u, on in zip(found.best.units, active[1], strict=True) if on} == set(plant().units)


# -- seeds, interruptions, accidents --


def test_the_same_seed_gives_the_same_and_another_seed_another():
    search = replace(LEARNED, updates=15)
    one, two, other = (search.solve(planted_problem(), runs=2, seed=seed) for seed in (5, 5, 6))
    assert same(one, two)
    # Both end in the planted units at the bound, so it is on the way there that they differ.
    assert one.stages[0]["relaxed"] != other.stages[0]["relaxed"] != one.stages[1]["relaxed"]


@EACH
def test_a_stopped_run_keeps_what_it_reached_within_the_budget(search):
    problem, memory = planted_problem(), Memory(stop_at=20)
    with pytest.raises(Stopped):
        search.solve(problem, runs=2, seed=1, checkpoint=memory)
    state = memory.load()
    assert state["update"] == 20 and len(state["interventions"]) == 2
    for intervention in state["interventions"]:
        assert len(intervention) <= 3 and problem.run_intervention(intervention).log_ratio.isfinite().all()


def test_a_loss_that_is_no_number_stops_the_search_and_says_where(monkeypatch):
    loss, calls = Terms.loss, [0]

    def breaks(terms: Terms, outcome: Outcome, drawn: Tensor | None = None) -> Tensor:
        calls[0] += 1
        broken = loss(terms, outcome, drawn)
        return torch.where(torch.arange(len(broken)) == 1, torch.nan, broken) if calls[0] == 8 else broken

    monkeypatch.setattr(Terms, "loss", breaks)
    with pytest.raises(PivotalError, match=r"must be a finite number, .* at update 8 of run 1\. Lower"):
        LEARNED.solve(planted_problem(), runs=3)
    assert calls[0] < LEARNED.updates


def test_progress_tells_of_every_run():
    rows: list[Progress] = []
    LEARNED.solve(planted_problem(), runs=2, progress=rows.append)
    learning = [row for row in rows if row.phase == "learn"]
    assert [row.update for row in learning] == sorted({row.update for row in learning})
    assert learning[-1].update == learning[-1].updates == LEARNED.updates
    for row in learning:
        assert len(row.loss) == len(row.units) == len(row.accuracy) == 2
    # The allowed number of units shrinks, and the expected number follows.
    assert learning[0].units[0] > 40 and learning[-1].units[0] < 35


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (
            lambda: LearnedMask(max_units=0),
            "max_units is a number of units, 1 or more, .* but it is 0",
        ),
        (lambda: LearnedMask(updates=0), "updates must be 1 or more, but it is 0"),
        (lambda: LearnedMask(anneal=1.5), "anneal must be between 0 and 1, but it is 1.5"),
        (lambda: LearnedMask(mask_rate=0.0), "mask_rate must be above 0"),
        (lambda: LearnedMask(spare=0.5), "spare must be 1 or more"),
        (lambda: LearnedMask(max_kl=0.0), "max_kl must be above 0"),
        (lambda: LearnedMask(loss="other"), "loss cannot be 'other'"),
        (lambda: LearnedMask(mask="bernouli"), "no masks named 'bernouli'. Did you mean 'bernoulli'"),
        (lambda: Reinforce(memory=1.0), "memory must be 0 or more and below 1"),
        (lambda: Attribution(reach=1.5), "reach must be above 0 and up to 1"),
        (lambda: Greedy(beam=0), "beam must be 1 or more, but it is 0"),
        (lambda: Greedy(points=2), "points must be 3 or more"),
        (lambda: LearnedMask(max_units=65).solve(planted_problem()), "There are 64 units .*max_units is 65"),
        (lambda: LearnedMask(max_fractional=99).solve(planted_problem()), "64 units"),
        (
            lambda: Attribution().solve(planted_problem(), runs=0),
            "runs must be .* 1 to 10,000, but it is 0",
        ),
    ],
)
def test_impossible_settings_are_refused(make, says):
    with pytest.raises(PivotalError, match=says):
        make()


@pytest.mark.parametrize(
    ("asked", "units", "budget"),
    [(3, 64, 3), (3.0, 64, 3), (0.05, 64, 3), (0.001, 64, 1), (64, 64, 64), (1, 1, 1)],
)
def test_a_budget_is_a_number_or_a_fraction(asked, units, budget):
    assert budget_of(asked, units) == budget
