"""What must not matter to a search: the unit in which an activation is measured, and which label comes first."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.models.tiny import doctors, random_model, tokenizer

from pivotal import Intervention, Problem, load_phenomenon
from pivotal.models import TransformersLM
from pivotal.models.planted import plant
from pivotal.questions import PairSet
from pivotal.searches import SEARCHES

SETTINGS: dict[str, dict[str, Any]] = {
    "attribution": {},
    "exchange": {},
    "greedy": {"refit": 15, "polish": 10},
    "learned": {"updates": 40, "refit": 15, "batch": 0},
    "reinforce": {"updates": 40, "refit": 15, "batch": 0},
}
SEARCH = pytest.mark.parametrize(
    "name",
    ["learned", *(pytest.param(name, marks=pytest.mark.slow) for name in SETTINGS if name != "learned")],
)


def found(name: str, problem: Problem, **settings: Any) -> Intervention:
    search = SEARCHES.get(name)(max_units=3, **SETTINGS[name], **settings)
    return search.solve(problem, runs=1, seed=0).best


# -- the scale of an activation ------------------------------------------------------------------------------


def scales() -> torch.Tensor:
    """One for each of the 3 x 24 units of the tiny models. Powers of two: a product with one is exact, so that two
    models that differ by them compute the same digits on every processor."""
    generator = torch.Generator().manual_seed(0)
    of_a_site = torch.tensor([64.0, 0.125, 8.0])[:, None]
    return of_a_site * 2.0 ** torch.randint(-2, 3, (3, 24), generator=generator)


def tiny(scales: torch.Tensor) -> TransformersLM:
    """The same function whatever the scales: each unit of an MLP is written that much larger, and read that much
    smaller."""
    model = random_model("llama")
    with torch.no_grad():
        for layer, scale in zip(model.model.layers, scales, strict=True):
            layer.mlp.up_proj.weight *= scale[:, None]
            layer.mlp.down_proj.weight /= scale
    return TransformersLM("tiny", model, tokenizer(bos=True))


def problem_of(model: TransformersLM) -> Problem:
    pairs = doctors("near", "behind", firsts=("The", "Some"))
    return Problem(model, pairs, sites="mlp", steps="every")


@SEARCH
@pytest.mark.slow
def test_rescaling_a_site_leaves_the_found_units_unchanged(name):
    by = scales()
    plain, rescaled = tiny(torch.ones(3, 24)), tiny(by)
    texts = [plain.encode(text).ids for text in ("The doctor near The", "Some cars")]
    torch.testing.assert_close(rescaled.next_logits(texts), plain.next_logits(texts))
    before, after = found(name, problem_of(plain)), found(name, problem_of(rescaled))
    assert after.units == before.units
    of_units = [float(by[int(unit.site.removeprefix("mlp.")), unit.index]) for unit in before.units]
    np.testing.assert_allclose(after.values, before.values * of_units, rtol=1e-3)


# -- the order of the labels ---------------------------------------------------------------------------------


def swapped(pairs: PairSet) -> PairSet:
    turned = tuple(replace(pair, words=pair.words[::-1]) for pair in pairs)
    return PairSet(pairs.name, pairs.labels[::-1], turned)


@SEARCH
def test_swapping_the_labels_mirrors_the_values(name):
    pairs = load_phenomenon("planted").sample(60)
    model = plant().model
    one, other = (found(name, Problem(model, some, steps="every")) for some in (pairs, swapped(pairs)))
    assert one.directions == other.directions[::-1]
    assert one.units == other.units
    np.testing.assert_allclose(other.values, one.values[::-1], rtol=1e-3, atol=1e-4)
