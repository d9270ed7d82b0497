"""Moments of the untouched units, compared with states that are computed one sentence at a time."""

from __future__ import annotations

import pytest
import torch

from pivotal.models.planted import plant
from pivotal.models.tree import PrefixTree
from pivotal.problem.activations import _usual
from pivotal.problem.problem import Problem
from pivotal.questions.phenomena.planted import PlantedAgreement


@pytest.mark.parametrize("steps", ["single", "every"])
def test_the_means_are_those_of_the_distinct_edited_states(steps: str) -> None:
    model = plant().model
    problem = Problem(model, PlantedAgreement().pairs().sample(40), steps=steps)  # type: ignore[arg-type]
    seen: dict[tuple[int, tuple[int, ...]], torch.Tensor] = {}
    for pair, direction in zip(problem.pairs, problem.direction.tolist(), strict=True):
        ids = model.encode(pair.prefix).ids
        for position in [pair.cue] if steps == "single" else range(len(ids)):
            prefix = ids[: position + 1]
            tree = PrefixTree.build([prefix])
            seen[direction, prefix] = model.states(model.prepare(tree))[-1, 0]
    by_direction = [torch.stack([h for (d, _), h in seen.items() if d == want]) for want in (0, 1)]
    found = problem.measure_activations()
    for direction, states in enumerate(by_direction):
        torch.testing.assert_close(found.own[direction], states.mean(0), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(found.target[1 - direction], states.mean(0), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(
        found.scale, torch.cat(by_direction).std(0, correction=0), atol=1e-4, rtol=1e-3
    )


def test_natural_values_of_the_planted_units_flip_nearly_everything() -> None:
    planted = plant()
    problem = Problem(planted.model, PlantedAgreement().pairs(), steps="every")
    values = problem.measure_activations().target[None]
    mask = torch.zeros_like(values)
    mask[:, :, [problem.space.flat(unit) for unit in planted.units]] = 1
    with torch.no_grad():
        outcome = problem.run(mask, values)
    assert outcome.flipped().float().mean() > 0.95


def test_one_state_in_a_hundred_on_either_side_is_not_usual() -> None:
    rows = torch.randn(250, 7, generator=torch.Generator().manual_seed(0))
    low, high = _usual(rows)
    ordered = rows.sort(0).values
    assert torch.equal(low, ordered[2]) and torch.equal(high, ordered[-3])
    low, high = _usual(rows[:50])
    assert torch.equal(low, rows[:50].amin(0)) and torch.equal(high, rows[:50].amax(0))
