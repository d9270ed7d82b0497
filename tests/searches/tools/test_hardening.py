"""From probabilities to an intervention: which runs are refitted, and where a bound on KL is in the way."""

from __future__ import annotations

import pytest
import torch

from pivotal.models.planted import plant
from pivotal.problem.objective import Terms
from pivotal.problem.problem import Problem
from pivotal.questions.phenomena import load_phenomenon
from pivotal.searches.base import Attempt, Stages
from pivotal.searches.learned import LearnedMask
from pivotal.searches.tools.hardening import Hardening
from pivotal.searches.tools.learner import filled


def test_units_that_break_the_bound_at_any_value_are_let_go() -> None:
    problem = Problem(plant().model, load_phenomenon("planted").sample(120), steps="every")
    own = problem.measure_activations().own
    alone = torch.eye(len(problem.space))[:, None].expand(-1, 2, -1)
    kl = problem.mean_kl(problem.run(alone, own.expand(len(alone), -1, -1)).states)
    dear, cheap = kl.argsort(descending=True)[:3], kl.argsort()[:3]
    mask = torch.zeros(2, 2, len(problem.space), dtype=torch.bool)
    mask[0, :, dear], mask[1, :, cheap] = True, True
    values = own.expand(2, -1, -1).clone()
    bound = 1.05 * float(kl[dear].min())
    assert problem.mean_kl(problem.run(mask.float(), values).states)[0] > 1.5 * bound, (
        "not at their means, even"
    )
    hardening = Hardening(Terms(max_kl=bound), refit=20, prune=-1.0, batch=0, shared=True)
    found = hardening.run(problem, mask.float(), mask, values, 3, Attempt())
    assert [len(one.units) for one in found.interventions] == [1, 3]
    assert all(stages["final"]["kl"] <= 1.1 * bound for stages in found.stages)


def test_a_run_is_refitted_only_when_its_mask_has_changed() -> None:
    """A mask within the budget is fitted once. A larger one gets half refits until it is within it: 6, 4, 3 units."""
    problem = Problem(plant().model, load_phenomenon("planted").sample(120), steps="every")
    mask = torch.zeros(2, 2, len(problem.space), dtype=torch.bool)
    mask[0, :, :3], mask[1, :, 10:16] = True, True
    values = problem.measure_activations().own.expand(2, -1, -1).clone()
    hardening = Hardening(Terms(), refit=20, prune=-1.0, batch=0, shared=True)
    found = hardening.run(problem, mask.float(), mask, values, 3, Attempt())
    assert [len(one.units) for one in found.interventions] == [3, 3]
    assert problem.work.backward == (20 + 10 + 10 + 20) * problem.tree.n_live
    alone = hardening.run(problem, mask[:1].float(), mask[:1], values[:1], 3, Attempt())
    assert alone.train_score[0] == pytest.approx(found.train_score[0], rel=1e-4)


def test_a_run_that_loses_a_unit_at_the_end_is_refitted() -> None:
    problem = Problem(plant().model, load_phenomenon("planted").sample(120), steps="every")
    kept, more = [problem.space.flat(unit) for unit in plant().units], 0
    assert more not in kept
    mask = torch.zeros(2, 2, len(problem.space), dtype=torch.bool)
    mask[:, :, kept], mask[1, :, more] = True, True
    values = problem.measure_activations().target.expand(2, -1, -1).clone()
    hardening = Hardening(Terms(), refit=20, prune=0.0, batch=0, shared=True)
    found = hardening.run(problem, mask.float(), mask, values, 4, Attempt())
    assert [len(one.units) for one in found.interventions] == [3, 3]
    assert problem.work.backward == (20 + 20 + 20) * problem.tree.n_live


# -- inside the natural range --------------------------------------------------------------------------------

PLANTED = plant(hidden=128)
PAIRS = load_phenomenon("planted").sample(120)


def test_a_mask_is_filled_with_the_units_that_help_most() -> None:
    problem = Problem(PLANTED.model, PAIRS, values="natural")
    mask = torch.zeros(2, 2, len(problem.space), dtype=torch.bool)
    there = problem.space.flat(PLANTED.units[0])
    mask[1, :, there] = True
    values = problem.measure_activations().target.expand(2, -1, -1)
    found = filled(problem, Terms(), mask, values, 3, 0)
    planted = {problem.space.flat(unit) for unit in PLANTED.units}
    for run in found:
        assert set(run.any(0).nonzero()[:, 0].tolist()) == planted
    assert not mask[0].any()  # the given mask is not changed
    assert filled(problem, Terms(), found, values, 3, 0).equal(found)


def test_the_learner_starts_with_few_units_inside_the_natural_range() -> None:
    search = LearnedMask(max_units=3)
    assert search.learner(Problem(PLANTED.model, PAIRS, values="natural"), 1, 0).pool == 64
    assert search.learner(Problem(PLANTED.model, PAIRS, values="unbounded"), 1, 0).pool == 128


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
