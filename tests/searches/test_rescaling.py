"""Values are learned in each unit's own spread: the unit of measurement of a site decides nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pivotal.models.module import ModuleLM
from pivotal.problem.problem import Problem
from pivotal.questions.pairs import MinimalPair, PairSet
from pivotal.searches.base import Search
from pivotal.searches.learned import LearnedMask
from pivotal.searches.reinforce import Reinforce

NOUNS = [f"noun{i}" for i in range(24)]
WORDS = ["<eos>", "<unk>", "The", *NOUNS, "runs", "run"]


class Measured(nn.Module):
    """A linear model whose site, of no bounds, is written in another unit of measurement."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.site = nn.Embedding(len(WORDS), 16), nn.Identity()
        self.output = nn.Linear(16, len(WORDS))
        with torch.no_grad():
            self.embedding.weight *= scale
            self.output.weight *= 1 / scale

    def forward(self, ids: Tensor) -> Tensor:
        return self.output(self.site(self.embedding(ids)))


def problem_at(scale: float) -> Problem:
    model = ModuleLM(f"times {scale:g}", Measured(scale), WORDS, {"hidden": "site"})
    pairs = tuple(MinimalPair(f"The {noun}", 1, ("runs", "run")) for noun in NOUNS)
    return Problem(model, PairSet("nouns", ("singular", "plural"), pairs))


@pytest.mark.parametrize(
    "search",
    [
        LearnedMask(max_units=2, updates=40, refit=10, kl_weight=0.0),
        Reinforce(max_units=2, updates=40, refit=10, samples=2, kl_weight=0.0),
    ],
    ids=lambda search: search.name,
)
def test_rescaling_a_site_leaves_the_found_units_and_rescales_their_values(search: Search) -> None:
    """By a power of two, so that the arithmetic is the same to the last digit."""
    one, other = (search.solve(problem_at(scale), runs=2) for scale in (1.0, 2.0**10))
    assert [i.units for i in one.interventions] == [i.units for i in other.interventions]
    assert one.stages == other.stages
    for here, there in zip(one.interventions, other.interventions, strict=True):
        np.testing.assert_array_equal(2.0**10 * here.values, there.values)
