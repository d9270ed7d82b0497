"""Values of a fixed mask, and from probabilities to an intervention, on the planted model, where both are known."""

import pytest
import torch
from tests.planted import BOTH_STEPS, PAIRS, mask_of, planted_problem, pushed

from pivotal import Problem
from pivotal.models.planted import plant
from pivotal.problem.objective import Terms
from pivotal.searches import LearnedMask
from pivotal.searches.base import Attempt, Stages
from pivotal.searches.tools.hardening import Hardening, prune
from pivotal.searches.tools.learner import filled
from pivotal.searches.tools.refit import Refit


@BOTH_STEPS
def test_the_planted_units_learn_values_that_flip_and_decoys_do_not(steps):
    problem, planted = planted_problem(steps), plant()
    mask = mask_of(problem, planted.units, planted.decoys)
    values = Refit(updates=40).fit(problem, mask).values
    right, wrong = problem.run(mask, values).flipped().float().mean(1).tolist()
    assert (right, wrong) == (1.0, 0.0)
    on = mask[0].bool()
    assert (values[0, 0][on[0]] > 0).all() and (values[0, 1][on[1]] < 0).all()  # singular is +, plural is -


def test_values_stay_where_the_site_can_reach_and_off_the_other_units():
    problem, planted = planted_problem().with_values("unbounded"), plant()
    mask = mask_of(problem, planted.units, planted.decoys)
    values = Refit(terms=Terms(margin=50.0), updates=60, rate=0.5).fit(problem, mask).values
    low, high = problem.bounds()
    assert (values >= low).all() and (values <= high).all()
    assert values[0][mask[0] > 0].abs().max() == 1  # a margin out of reach drives them to the bound
    assert (values[mask == 0] == 0).all()


@pytest.mark.slow
def test_the_kl_bound_is_kept_on_the_sample():
    problem, planted = planted_problem(), plant()
    mask = mask_of(problem, planted.units)
    free = Refit(terms=Terms(margin=3.0), updates=60).fit(problem, mask)
    bound = 0.5 * problem.untouched.mean(problem.run(mask, free.values).states).item()
    refit = Refit(terms=Terms(margin=3.0, max_kl=bound), updates=120)
    bounded = refit.fit(problem, mask)
    sample = problem.sample(2 * refit.batch, 0)
    kl = sample.untouched.mean(sample.run(mask, bounded.values).states).item()
    assert kl <= bound
    # Not by doing nothing: the preference is still worked on, and KL has come to have a price.
    assert problem.run(mask, bounded.values).flipped().float().mean() > 0.5
    assert free.price.tolist() == [[0]] and bounded.price.item() > 0


def test_a_refit_is_never_worse_than_what_it_started_from():
    problem, planted = planted_problem("single"), plant()
    mask = mask_of(problem, planted.units)
    good = Refit(updates=60).fit(problem, mask).values
    wild = Refit(updates=6, rate=50.0).fit(problem, mask, good).values
    terms = Terms()
    assert terms.loss(problem.run(mask, wild)) <= terms.loss(problem.run(mask, good)) + 1e-6


def test_sets_are_fitted_independently_and_the_seed_decides():
    problem, planted = planted_problem("single"), plant()
    mask = mask_of(problem, planted.units, planted.decoys)
    refit = Refit(updates=15)
    both = refit.fit(problem, mask, seed=3).values
    assert torch.equal(both, refit.fit(problem, mask, seed=3).values)
    alone = refit.fit(problem, mask[:1], seed=3).values
    assert torch.allclose(both[:1], alone, atol=1e-5)


def test_the_kl_of_a_score_is_measured_at_drawn_positions_unless_it_is_bounded():
    problem, planted = planted_problem(), plant()
    mask = mask_of(problem, planted.units)
    values = problem.measure_activations().target[None]
    exact = problem.untouched.mean(problem.run(mask, values).states).item()

    def kl(positions: int, max_kl: float | None = None) -> float:
        terms = Terms(margin=-100.0, kl_weight=1.0, max_kl=max_kl)  # of which only KL is left
        refit = Refit(terms, updates=1, rate=1e-9, batch=0, positions=positions)
        return refit.fit(problem, mask, values).score.item()

    assert kl(0) == pytest.approx(exact, rel=1e-4)
    assert kl(64) == pytest.approx(exact, rel=0.5) and kl(64) != pytest.approx(exact, rel=1e-4)
    assert kl(64, max_kl=100.0) <= exact * 1.0001


def test_units_that_break_the_bound_at_any_value_are_let_go():
    problem = planted_problem()
    own = problem.measure_activations().own
    alone = torch.eye(len(problem.space))[:, None].expand(-1, 2, -1)
    kl = problem.untouched.mean(problem.run(alone, own.expand(len(alone), -1, -1)).states)
    dear, cheap = kl.argsort(descending=True)[:3], kl.argsort()[:3]
    mask = torch.zeros(2, 2, len(problem.space), dtype=torch.bool)
    mask[0, :, dear], mask[1, :, cheap] = True, True
    values = own.expand(2, -1, -1).clone()
    bound = 1.05 * float(kl[dear].min())
    assert problem.untouched.mean(problem.run(mask.float(), values).states)[0] > 1.5 * bound
    hardening = Hardening(Terms(max_kl=bound), refit=20, prune=-1.0, batch=0, shared=True)
    found = hardening.run(problem, mask.float(), mask, values, 3, Attempt())
    assert [len(one.units) for one in found.interventions] == [1, 3]
    assert all(stages["final"]["kl"] <= 1.1 * bound for stages in found.stages)


def test_a_run_is_refitted_only_when_its_mask_has_changed():
    """A mask within the budget is fitted once. A larger one gets half refits until it is within it: 6, 4, 3 units."""
    problem = planted_problem()
    mask = torch.zeros(2, 2, len(problem.space), dtype=torch.bool)
    mask[0, :, :3], mask[1, :, 10:16] = True, True
    values = problem.measure_activations().own.expand(2, -1, -1).clone()
    hardening = Hardening(Terms(), refit=20, prune=-1.0, batch=0, shared=True)
    found = hardening.run(problem, mask.float(), mask, values, 3, Attempt())
    assert [len(one.units) for one in found.interventions] == [3, 3]
    assert problem.work.backward == (20 + 10 + 10 + 20) * problem.tree.n_live
    alone = hardening.run(problem, mask[:1].float(), mask[:1], values[:1], 3, Attempt())
    assert alone.train_score[0] == pytest.approx(found.train_score[0], rel=1e-4)


def test_a_run_that_loses_a_unit_at_the_end_is_refitted():
    problem = planted_problem()
    kept, more = [problem.space.flat(unit) for unit in plant().units], 0
    assert more not in kept
    mask = torch.zeros(2, 2, len(problem.space), dtype=torch.bool)
    mask[:, :, kept], mask[1, :, more] = True, True
    values = problem.measure_activations().target.expand(2, -1, -1).clone()
    hardening = Hardening(Terms(), refit=20, prune=0.0, batch=0, shared=True)
    found = hardening.run(problem, mask.float(), mask, values, 4, Attempt())
    assert [len(one.units) for one in found.interventions] == [3, 3]
    assert problem.work.backward == (20 + 20 + 20) * problem.tree.n_live


def test_what_pruning_loses_is_counted_for_both_directions_together():
    problem = planted_problem()
    mask, values = pushed(problem, size=0.9)
    less = prune(problem, Terms(), mask.bool(), values, 0.2, shared=False)
    assert 0.8 <= float(problem.run(less.float(), values).flips()[0]) < 1


# -- inside the natural range --------------------------------------------------------------------------------

PLANTED = plant(hidden=128)
SOME = PAIRS.sample(120)


def test_a_mask_is_filled_with_the_units_that_help_most():
    problem = Problem(PLANTED.model, SOME, values="natural")
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


def test_the_learner_starts_with_few_units_inside_the_natural_range():
    search = LearnedMask(max_units=3)
    assert search.learner(Problem(PLANTED.model, SOME, values="natural"), 1, 0).pool == 64
    assert search.learner(Problem(PLANTED.model, SOME, values="unbounded"), 1, 0).pool == 128


def test_a_stage_that_changes_nothing_has_the_scores_of_the_last_one_and_costs_nothing():
    problem = planted_problem("single", pairs=40)
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
