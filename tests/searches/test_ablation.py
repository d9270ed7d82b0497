"""Single-unit ablation on the planted model, where one unit decides each class of verbs and decoys decide nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.searches.planted import BOTH_STEPS, PAIRS, planted_problem

from pivotal.models.planted import plant
from pivotal.problem.problem import Problem
from pivotal.searches.ablation import Ablation, Effects, ablate, ablation_ranks, found_by_ablation, values_of
from pivotal.units import Steps

QUICK = Ablation(max_units=3, refit=20, batch=32)


@BOTH_STEPS
@pytest.mark.parametrize("value", ["zero", "mean", "other-mean"])
def test_the_planted_units_rank_first(steps: Steps, value: Any) -> None:
    for seed in range(2):
        found = replace(QUICK, value=value).solve(planted_problem(steps, seed), runs=2, seed=seed)
        assert [i.units for i in found.interventions] == [plant(seed).units] * 2


def test_units_that_nothing_reads_have_no_effect() -> None:
    problem, planted = planted_problem(), plant()
    effects = ablation_ranks(problem, prefixes=0)
    ranks = effects.ranks()
    decoys = [problem.space.flat(unit) for unit in planted.decoys]
    assert effects.log_ratio[decoys].abs().max() < 1e-4 and not effects.flips[decoys].any()
    assert sorted(int(ranks[problem.space.flat(unit)]) for unit in planted.units) == [1, 2, 3]
    assert sorted(ranks.tolist()) == list(range(1, 65))


@BOTH_STEPS
def test_all_units_at_once_are_each_alone(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pivotal.problem.batch._ROWS", 1000)  # several parts, the last one not full
    problem = planted_problem(steps)
    shares: list[float] = []
    values = values_of(problem, "other-mean")
    together = ablate(problem, values, tell=shares.append)
    for unit in (0, 20, 63):
        mask = torch.zeros(1, 64)
        mask[0, unit] = 1
        torch.testing.assert_close(together[unit], problem.run(mask, values[None]).log_ratio[0])
    assert len(shares) > 2 and shares[-1] == 1.0 and shares == sorted(shares)


def test_among_units_that_flip_as_many_the_log_ratio_decides() -> None:
    effects = Effects(
        log_ratio=torch.tensor([9.0, 1.0, 2.0, -1.0]),
        flips=torch.tensor([0.0, 0.5, 0.5, 0.0]),
        values=torch.zeros(2, 4),
    )
    assert effects.ranks("flips").tolist() == [3, 2, 1, 4]
    assert effects.ranks("log-ratio").tolist() == [1, 3, 2, 4]


def test_values_are_what_they_are_called() -> None:
    problem = planted_problem("single")
    assert not values_of(problem, "zero").any()
    mean = values_of(problem, "mean")
    torch.testing.assert_close(mean[0], mean[1])
    torch.testing.assert_close(values_of(problem, "other-mean"), problem.measure_activations().own.flip(0))


def test_without_a_refit_the_values_are_those_of_the_ablation() -> None:
    problem = planted_problem()
    best = replace(QUICK, refit=0).solve(problem).best
    flat = [problem.space.flat(unit) for unit in best.units]
    np.testing.assert_allclose(best.values, problem.measure_activations().target[:, flat].numpy())


# -- which discovered units would it have found? --


@BOTH_STEPS
def test_it_finds_the_planted_units_and_no_decoys(steps: Steps) -> None:
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


def test_pairs_without_labels_are_measured_by_the_preference_of_the_model() -> None:
    planted = plant()
    bare = replace(PAIRS, pairs=tuple(replace(pair, label="", group="") for pair in PAIRS))
    problem = Problem(planted.model, bare)
    (row,) = found_by_ablation(planted.units[:1], problem)
    assert row.condition == "all pairs" and row.found and row.drop == pytest.approx(1 / 6, abs=0.01)
