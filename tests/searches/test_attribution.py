"""Gradients as a ranking, on the planted model, and the sum that integrated gradients must give."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from pivotal.errors import PivotalError
from pivotal.models.planted import plant
from pivotal.problem.problem import Problem
from pivotal.questions.phenomena import load_phenomenon
from pivotal.searches.attribution import Attribution
from pivotal.units import Steps

PAIRS = load_phenomenon("planted")
BOTH_STEPS = pytest.mark.parametrize("steps", ["single", "every"])
QUICK = Attribution(max_units=3, method="gradient", refit=20, batch=32)


def planted_problem(steps: Steps = "every", seed: int = 0) -> Problem:
    return Problem(plant(seed).model, PAIRS.sample(120), steps=steps)


def rank(search: Attribution, problem: Problem) -> tuple[torch.Tensor, torch.Tensor]:
    return search.rank(problem, 0, lambda share: None)


@BOTH_STEPS
@pytest.mark.parametrize("method", ["gradient", "integrated"])
@pytest.mark.parametrize("value", ["target-mean", "bound"])
def test_the_planted_units_rank_first(steps: Steps, method: Any, value: Any) -> None:
    for seed in range(3):
        search = replace(QUICK, method=method, value=value)
        found = search.solve(planted_problem(steps, seed), runs=2, seed=seed)
        assert [i.units for i in found.interventions] == [plant(seed).units] * 2


@BOTH_STEPS
def test_the_gradient_is_the_slope_of_the_loss(steps: Steps) -> None:
    problem = planted_problem(steps)
    gain, values = rank(QUICK, problem)
    unit, step = problem.space.flat(plant().units[0]), 1e-3
    losses = []
    for size in (0.0, step):
        mask = torch.zeros(1, 64)
        mask[0, unit] = size
        losses.append(QUICK.terms.loss(problem.run(mask, values[None])).item())
    assert gain[unit].item() == pytest.approx((losses[0] - losses[1]) / step, rel=0.03)


@BOTH_STEPS
@pytest.mark.parametrize("rows", [20_000, 700])
def test_integrated_gradients_sum_to_the_change_of_the_loss(
    steps: Steps, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pivotal.problem.problem._ROWS", rows)  # in one pass, and in several
    problem = planted_problem(steps)
    gain, values = rank(replace(QUICK, method="integrated", points=50), problem)
    ends = [QUICK.terms.loss(problem.run(torch.full((1, 64), m), values[None])).item() for m in (0.0, 1.0)]
    assert gain.sum().item() == pytest.approx(ends[0] - ends[1], rel=0.01)


def test_the_bound_is_the_one_that_promises_more() -> None:
    problem = planted_problem().with_values("unbounded")
    gain, values = rank(replace(QUICK, value="bound"), problem)
    assert set(values.flatten().tolist()) == {-1.0, 1.0}
    units = [problem.space.flat(unit) for unit in plant().units]
    assert (values[0, units] == 1).all() and (values[1, units] == -1).all()  # singular is positive there
    assert (gain[units] > rank(QUICK, problem)[0][units]).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"points": 0}, "points must be 1 or more"),
        ({"prefixes": -1}, "prefixes must be 0 or more"),
        ({"max_units": 0}, "at least one unit"),
    ],
)
def test_impossible_requests_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(PivotalError, match=message):
        replace(QUICK, **settings).solve(planted_problem())
