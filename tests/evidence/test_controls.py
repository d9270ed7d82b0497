"""Random controls of any number, a last group of one included."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pivotal.evidence.controls import random_control
from pivotal.models.recurrent.lm import RecurrentLM
from pivotal.problem.objective import Terms
from pivotal.problem.problem import Problem
from pivotal.questions.pairs import MinimalPair, PairSet
from pivotal.searches.base import interventions_of

WORDS = ["<eos>", "<unk>", "The", "cat", "dogs", "runs", "run"]


@pytest.mark.parametrize("layers", [1, 8])
@pytest.mark.parametrize("sets", [1, 2, 5])
def test_any_number_of_controls(layers: int, sets: int) -> None:
    """Of a model with many sites, sets are fitted in groups of four."""
    torch.manual_seed(0)
    modules = nn.Embedding(len(WORDS), 6), nn.RNN(6, 4, num_layers=layers), nn.Linear(4, len(WORDS))
    model = RecurrentLM.from_modules("random", *modules, WORDS)
    pairs = tuple(MinimalPair(f"The {noun}", 1, ("runs", "run")) for noun in ("cat", "dogs"))
    problem = Problem(model, PairSet("two", ("singular", "plural"), pairs))
    mask = torch.zeros(1, 2, len(problem.space), dtype=torch.bool)
    mask[..., 0] = True
    (found,) = interventions_of(problem, mask, mask.float())
    control = random_control(found, 0.0, problem, problem, sets, Terms(), seed=0)
    assert control.sets == len(control.flip_accuracy) == sets and control.p_value == 1
