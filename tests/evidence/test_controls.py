"""Random controls of any number, a last group of one included."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pivotal.evidence.evaluation import matched_sets, random_control
from pivotal.evidence.examination import Examination
from pivotal.models.recurrent.lm import RecurrentLM
from pivotal.problem.objective import Terms
from pivotal.problem.problem import Problem
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.searches.base import interventions_of

WORDS = ["<eos>", "<unk>", "The", "cat", "dogs", "runs", "run"]


@pytest.mark.parametrize("layers", [1, 8])
@pytest.mark.parametrize("sets", [1, 2, 5])
def test_any_number_of_controls(layers: int, sets: int) -> None:
    torch.manual_seed(0)
    modules = nn.Embedding(len(WORDS), 6), nn.RNN(6, 4, num_layers=layers), nn.Linear(4, len(WORDS))
    model = RecurrentLM.from_modules("random", *modules, WORDS)
    pairs = tuple(MinimalPair(f"The {noun}", 1, ("runs", "run")) for noun in ("cat", "dogs"))
    problem = Problem(model, PairSet("two", ("singular", "plural"), pairs))
    mask = torch.zeros(1, 2, len(problem.space), dtype=torch.bool)
    mask[..., 0] = True
    (found,) = interventions_of(problem, mask, mask.float())
    control = random_control(Examination(found, problem), problem, sets, Terms(), seed=0, accuracy=0.0)
    assert control.sets == len(control.flip_accuracy) == sets and control.p_value == 1


def test_random_sets_have_as_many_units_in_each_site() -> None:
    torch.manual_seed(0)
    modules = nn.Embedding(len(WORDS), 6), nn.RNN(6, 40, num_layers=3), nn.Linear(40, len(WORDS))
    model = RecurrentLM.from_modules("random", *modules, WORDS)
    pairs = tuple(MinimalPair(f"The {noun}", 1, ("runs", "run")) for noun in ("cat", "dogs"))
    problem = Problem(model, PairSet("two", ("singular", "plural"), pairs))
    mask = torch.zeros(1, 2, len(problem.space), dtype=torch.bool)
    mask[0, 0, [3, 5, 90]] = mask[0, 1, [3, 5]] = True
    (found,) = interventions_of(problem, mask, mask.float())
    drawn = matched_sets(found, problem, 20, seed=0)
    by_site = drawn.view(20, 2, 3, 40).sum(-1)
    assert (by_site == torch.tensor([[2, 0, 1], [2, 0, 0]])).all()
    assert len({tuple(row.flatten().tolist()) for row in drawn}) > 10, "the sets differ"
