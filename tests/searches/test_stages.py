"""The scores of the stages of a search."""

from __future__ import annotations

import torch

from pivotal.models.planted import plant
from pivotal.problem.objective import Terms
from pivotal.problem.problem import Problem
from pivotal.questions.phenomena import load_phenomenon
from pivotal.searches.base import Attempt, Stages


def test_a_stage_that_changes_nothing_has_the_scores_of_the_last_one_and_costs_nothing() -> None:
    problem = Problem(plant().model, load_phenomenon("planted").sample(40))
    mask, values = torch.zeros(1, 2, len(problem.space)), torch.zeros(1, 2, problem.space.coordinates)
    mask[..., problem.space.flat(plant().units[0])] = 1.0
    stages = Stages(Terms(kl_weight=0.1), problem, Attempt())
    stages.add("thinned", mask, values)
    spent, score = problem.work.forward, stages.score
    stages.add("final", mask.clone(), values.clone())
    assert problem.work.forward == spent
    assert stages.score == score
    stages.add("changed", mask, values + 0.5)
    assert problem.work.forward == 2 * spent
    (rows,) = stages.discovery(problem, mask.bool(), values).stages
    assert rows["final"] == rows["thinned"] != rows["changed"]
