"""Units ranked by gradients and by ablation, on the planted model."""

from dataclasses import replace

import pytest
import torch
from tests.planted import BOTH_STEPS, PAIRS, planted_problem

from pivotal import Problem
from pivotal.models.planted import plant
from pivotal.searches import Attribution
from pivotal.searches.tools.ablation import ablated, effects_of, found_by_ablation


@BOTH_STEPS
def test_the_effect_of_a_unit_is_that_of_setting_it_to_zero_alone(steps, monkeypatch):
    monkeypatch.setattr("pivotal.problem.batch._ROWS", 1000)  # several parts, the last one not full
    problem = planted_problem(steps)
    together = ablated(problem, range(64))
    for unit in (0, 20, 63):
        mask = torch.zeros(1, 64)
        mask[0, unit] = 1
        alone = problem.run(mask, torch.zeros(1, 2, 64)).log_ratio[0]
        torch.testing.assert_close(together[unit], alone)


def test_units_that_nothing_reads_have_no_effect():
    problem, planted = planted_problem(), plant()
    effects = effects_of(problem)
    decoys = [problem.space.flat(unit) for unit in planted.decoys]
    assert effects[decoys].abs().max() < 1e-4
    assert set(effects.topk(3).indices.tolist()) == {problem.space.flat(unit) for unit in planted.units}


# -- which discovered units would it have found? --


@BOTH_STEPS
def test_it_finds_the_planted_units_and_no_decoys(steps):
    planted = plant()
    problem = Problem(planted.model, PAIRS, steps=steps)
    rows = found_by_ablation(planted.units + planted.decoys, problem)
    assert [row.unit for row in rows] == list(map(str, planted.units + planted.decoys))
    assert [row.found for row in rows] == [True] * 3 + [False] * 3
    for row in rows[:3]:
        # With its number gone, a class of verbs is a toss-up; the other two classes do not notice.
        assert row.rank <= 3 and row.effect > 0.2
        assert row.drop == pytest.approx(0.5) and type(row.condition) is str
        assert row.condition.startswith("class ")
    assert all(row.rank > 3 and row.drop == 0 for row in rows[3:])


def test_pairs_without_labels_are_measured_by_the_preference_of_the_model():
    planted = plant()
    bare = replace(PAIRS, pairs=tuple(replace(pair, label="", group="") for pair in PAIRS))
    problem = Problem(planted.model, bare)
    (row,) = found_by_ablation(planted.units[:1], problem)
    assert row.condition == "all pairs" and row.found and row.drop == pytest.approx(1 / 6, abs=0.01)


ATTRIBUTION = Attribution(max_units=3, method="gradient", value="target-mean", refit=20, batch=32)


def rank(search: Attribution, problem: Problem) -> tuple[torch.Tensor, torch.Tensor]:
    return search.rank(problem, 0)


@BOTH_STEPS
@pytest.mark.parametrize("method", ["gradient", "integrated"])
@pytest.mark.parametrize("value", ["range", "bound", "target-mean"])
def test_the_planted_units_rank_first_by_attribution(steps, method, value):
    for seed in range(2):
        search = replace(ATTRIBUTION, method=method, value=value)
        found = search.solve(planted_problem(steps, seed), runs=2, seed=seed)
        assert [i.units for i in found.interventions] == [plant(seed).units] * 2


@BOTH_STEPS
def test_the_gradient_is_the_slope_of_the_loss(steps):
    problem = planted_problem(steps)
    gain, values = rank(ATTRIBUTION, problem)
    unit, step = problem.space.flat(plant().units[0]), 1e-3
    losses = []
    for size in (0.0, step):
        mask = torch.zeros(1, 64)
        mask[0, unit] = size
        losses.append(ATTRIBUTION.terms.loss(problem.run(mask, values[None])).item())
    assert gain[unit].item() == pytest.approx((losses[0] - losses[1]) / step, rel=0.03)


@BOTH_STEPS
@pytest.mark.parametrize("reach", [1.0, 0.25])
@pytest.mark.parametrize("rows", [20_000, 700])
def test_integrated_gradients_sum_to_the_change_of_the_loss(steps, rows, reach, monkeypatch):
    monkeypatch.setattr("pivotal.problem.batch._ROWS", rows)  # in one pass, and in several
    problem = planted_problem(steps)
    gain, values = rank(replace(ATTRIBUTION, method="integrated", points=50, reach=reach), problem)
    ends = [
        ATTRIBUTION.terms.loss(problem.run(torch.full((1, 64), m), values[None])).item() for m in (0.0, reach)
    ]
    assert reach * gain.sum().item() == pytest.approx(ends[0] - ends[1], rel=0.01)


def test_the_bound_is_the_one_that_promises_more():
    problem = planted_problem().with_values("unbounded")
    gain, values = rank(replace(ATTRIBUTION, value="bound"), problem)
    assert set(values.flatten().tolist()) == {-1.0, 1.0}
    units = [problem.space.flat(unit) for unit in plant().units]
    assert (values[0, units] == 1).all() and (values[1, units] == -1).all()  # singular is positive there
    assert (gain[units] > rank(ATTRIBUTION, problem)[0][units]).all()


@BOTH_STEPS
@pytest.mark.parametrize("values", ["natural", "unbounded"])
def test_the_gain_is_what_a_unit_can_do_inside_its_natural_range(steps, values):
    problem = planted_problem(steps).with_values(values)
    gain, start = rank(replace(ATTRIBUTION, value="range"), problem)
    low, high = problem.natural_range()
    assert torch.minimum((start - low).abs(), (start - high).abs()).max() < 1e-6
    # At mask = 0 the slope is linear in the value, so that no value inside the range promises more.
    ends = [_gain_at(problem, end.expand(2, -1)) for end in (low, high)]
    assert torch.allclose(gain, torch.maximum(*ends).sum(0), atol=1e-6)
    for share in (0.0, 0.3, 1.0):
        inside = _gain_at(problem, (low + share * (high - low)).expand(2, -1)).sum(0)
        assert (gain >= inside - 1e-6).all()


def _gain_at(problem: Problem, values: torch.Tensor) -> torch.Tensor:
    mask = torch.zeros(1, 2, len(problem.space), requires_grad=True)
    loss = ATTRIBUTION.terms.loss(problem.run(mask, values[None])).sum()
    return -torch.autograd.grad(loss, mask)[0][0]
