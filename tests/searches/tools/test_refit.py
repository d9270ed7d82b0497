"""Values of a fixed mask, on the planted model, where the right mask and its values are known."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pivotal.models.planted import plant
from pivotal.problem.objective import Terms
from pivotal.problem.problem import Problem
from pivotal.questions.phenomena import load_phenomenon
from pivotal.searches.tools.refit import Refit
from pivotal.units import Steps, Unit

BOTH_STEPS = pytest.mark.parametrize("steps", ["single", "every"])


def planted_problem(steps: Steps) -> Problem:
    return Problem(plant().model, load_phenomenon("planted").sample(200), steps=steps)


def mask_of(problem: Problem, *sets: tuple[Unit, ...]) -> Tensor:
    mask = torch.zeros(len(sets), 2, len(problem.space))
    for row, units in zip(mask, sets, strict=True):
        row[:, [problem.space.flat(unit) for unit in units]] = 1
    return mask


@BOTH_STEPS
def test_the_planted_units_learn_values_that_flip_and_decoys_do_not(steps: Steps) -> None:
    problem, planted = planted_problem(steps), plant()
    mask = mask_of(problem, planted.units, planted.decoys)
    values = Refit(updates=40).fit(problem, mask).values
    right, wrong = problem.run(mask, values).flipped().float().mean(1).tolist()
    assert (right, wrong) == (1.0, 0.0)
    on = mask[0].bool()
    assert (values[0, 0][on[0]] > 0).all() and (values[0, 1][on[1]] < 0).all()  # singular is +, plural is -


def test_values_stay_where_the_site_can_reach_and_off_the_other_units() -> None:
    problem, planted = planted_problem("every").with_values("unbounded"), plant()
    mask = mask_of(problem, planted.units, planted.decoys)
    values = Refit(terms=Terms(margin=50.0), updates=60, rate=0.5).fit(problem, mask).values
    low, high = problem.bounds()
    assert (values >= low).all() and (values <= high).all()
    assert values[0][mask[0] > 0].abs().max() == 1  # a margin out of reach drives them to the bound
    assert (values[mask == 0] == 0).all()


@pytest.mark.slow
def test_the_kl_bound_is_kept_on_the_sample() -> None:
    problem, planted = planted_problem("every"), plant()
    mask = mask_of(problem, planted.units)
    free = Refit(terms=Terms(margin=3.0), updates=60).fit(problem, mask)
    bound = 0.5 * problem.mean_kl(problem.run(mask, free.values).states).item()
    refit = Refit(terms=Terms(margin=3.0, max_kl=bound), updates=120)
    bounded = refit.fit(problem, mask)
    sample = problem.sample(2 * refit.batch, 0)
    kl = sample.mean_kl(sample.run(mask, bounded.values).states).item()
    assert kl <= bound
    # Not by doing nothing: the preference is still worked on, and KL has come to have a price.
    assert problem.run(mask, bounded.values).flipped().float().mean() > 0.5
    assert free.price.tolist() == [[0]] and bounded.price.item() > 0


def test_a_refit_is_never_worse_than_what_it_started_from() -> None:
    problem, planted = planted_problem("single"), plant()
    mask = mask_of(problem, planted.units)
    good = Refit(updates=60).fit(problem, mask).values
    wild = Refit(updates=6, rate=50.0).fit(problem, mask, good).values
    terms = Terms()
    assert terms.loss(problem.run(mask, wild)) <= terms.loss(problem.run(mask, good)) + 1e-6


def test_sets_are_fitted_independently_and_the_seed_decides() -> None:
    problem, planted = planted_problem("single"), plant()
    mask = mask_of(problem, planted.units, planted.decoys)
    refit = Refit(updates=15)
    both = refit.fit(problem, mask, seed=3).values
    assert torch.equal(both, refit.fit(problem, mask, seed=3).values)
    alone = refit.fit(problem, mask[:1], seed=3).values
    assert torch.allclose(both[:1], alone, atol=1e-5)


def test_the_kl_of_a_score_is_measured_at_drawn_positions_unless_it_is_bounded() -> None:
    problem, planted = planted_problem("every"), plant()
    mask = mask_of(problem, planted.units)
    values = problem.measure_activations().target[None]
    exact = problem.mean_kl(problem.run(mask, values).states).item()

    def kl(positions: int, max_kl: float | None = None) -> float:
        terms = Terms(margin=-100.0, kl_weight=1.0, max_kl=max_kl)  # of which only KL is left
        return (
            Refit(terms, updates=1, rate=1e-9, batch=0, positions=positions)
            .fit(problem, mask, values)
            .score.item()
        )

    assert kl(0) == pytest.approx(exact, rel=1e-4)
    assert kl(64) == pytest.approx(exact, rel=0.5) and kl(64) != pytest.approx(exact, rel=1e-4)
    assert kl(64, max_kl=100.0) <= exact * 1.0001
