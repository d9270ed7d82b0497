"""Attention heads as units: one entry of a mask, as many values as a head has coordinates."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.models.tiny import FEW, intervention_of, random_model, shared_lm, tokenizer

from pivotal import Intervention, PivotalError, Problem, evaluate
from pivotal.models import TransformersLM
from pivotal.models.edits import dense, spread
from pivotal.searches import SEARCHES
from pivotal.searches.tools.refit import Refit
from pivotal.searches.tools.trials import grid_of, places_of
from pivotal.units import Site, Unit, UnitSpace

QUICK: dict[str, dict[str, Any]] = {
    "learned": {"updates": 60, "refit": 30},
    "reinforce": {"updates": 60, "refit": 30},
    "exchange": {"rounds": 2},
    "attribution": {"refit": 120},
}
"""Settings under which a search of twelve heads takes seconds, and values far outside the natural range are reached."""


def with_one_head(block: int, head: int) -> TransformersLM:
    """A model in which no other head writes anything."""
    model = random_model("llama")
    with torch.no_grad():
        for level, layer in enumerate(model.model.layers):
            weight = layer.self_attn.o_proj.weight.view(16, 4, 4)
            weight[:, [h for h in range(4) if (level, h) != (block, head)]] = 0.0
    return TransformersLM("one head", model, tokenizer(bos=True))


def test_all_takes_every_coordinate_once():
    lm = shared_lm("llama")
    assert {site.kind for site in lm.unit_space().sites} == {"attn", "mlp", "resid"}
    assert [site.name for site in lm.unit_space("head.1-2,mlp.0").sites] == ["mlp.0", "head.1", "head.2"]
    with pytest.raises(PivotalError, match=r"head\.1 and attn\.1 have the same"):
        lm.unit_space("head.1,attn")


@pytest.mark.parametrize("search", SEARCHES.names())
@pytest.mark.slow
def test_every_search_finds_the_only_head_that_writes(search):
    lm = with_one_head(1, 2)
    problem = Problem(lm, FEW, sites="head", values="unbounded")
    found = SEARCHES.get(search)(max_units=1, kl_weight=0.0, **QUICK.get(search, {})).solve(problem)
    assert [str(unit) for unit in found.best.units] == ["head.1:2"]
    assert found.best.values.shape == (2, 4)
    assert problem.run_intervention(found.best).flipped().float().mean() >= 0.8


def test_heads_and_neurons_together(tmp_path):
    """A set of both kinds is scored, saved, loaded and taken apart as any other is."""
    lm = shared_lm("llama")
    problem = Problem(lm, FEW, sites="head,mlp")
    space = problem.space
    mask = torch.zeros(1, 2, len(space))
    units = [space.flat(Unit("head.1", 2, 4)), space.flat(Unit("mlp.2", 5))]
    mask[..., units] = 1.0
    fitted = Refit(updates=20).fit(problem, mask)
    assert (fitted.values != 0).sum() == 2 * 5
    assert torch.equal(fitted.values * spread(space, mask), fitted.values)
    at = [place for i in units for place in space.places(space.unit(i))]
    found = intervention_of(lm, tuple(space.unit(i) for i in units), fitted.values[0][:, at].numpy())
    found = replace(found, directions=problem.labels)
    assert torch.equal(dense(found, space)[1], fitted.values)
    again = Intervention.load(found.save(tmp_path / "both"))
    assert again == found and again.units[0].size == 4
    np.testing.assert_allclose(found.shown[:, 0], np.sqrt((found.values[:, :4] ** 2).mean(1)))
    np.testing.assert_array_equal(found.shown[:, 1], found.values[:, 4])
    assert found.without(0).values.shape == (2, 1) and found.without(1).values.shape == (2, 4)
    scores = evaluate(found, problem)
    assert scores.units == 2 and [one.unit for one in scores.drop_one] == ["head.1:2", "mlp.2:5"]


def test_places_and_grid_of_units_that_differ_in_size():
    space = UnitSpace((Site("mlp.0", 2), Site("head.0", 2, size=3)))
    assert places_of(space, torch.device("cpu")).tolist() == [[0, 0, 0], [1, 1, 1], [2, 3, 4], [5, 6, 7]]
    problem = Problem(shared_lm("llama"), FEW, sites="head.0,mlp.0", values="unbounded")
    grid, seen = grid_of(problem, points=4), problem.measure_activations()
    head = problem.space.coordinates_of("head.0")
    torch.testing.assert_close(grid[0, :, head], seen.own[:, head])
    torch.testing.assert_close(
        grid[2, :, head] - grid[1, :, head], 4 * (seen.target - seen.own)[:, head], rtol=1e-4, atol=1e-5
    )
    torch.testing.assert_close(grid[3], seen.target)
