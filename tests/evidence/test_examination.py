"""An examination runs the model once, whoever reads it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from pivotal.evidence.checks import natural_range
from pivotal.evidence.evaluation import scores_of
from pivotal.evidence.examination import Examination
from pivotal.evidence.trace import trace_held_out


@pytest.mark.parametrize("prefixes", [1, 7, 40])
def test_a_sample_has_the_outcome_of_a_run_of_its_own(problem, found, prefixes):
    sample = Examination(found.without(0), problem).sample(prefixes)
    own = problem.sample(prefixes).run_intervention(found.without(0))
    assert sample.problem is problem.sample(prefixes) and len(sample.flipped) == len(sample.problem)
    torch.testing.assert_close(sample.outcome.log_ratio, own.log_ratio, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(sample.outcome.states, own.states, rtol=1e-5, atol=1e-5)
    assert sample.outcomes[0].log_odds[1] == pytest.approx(-float(own.log_ratio[0, 0]), abs=1e-5)


def test_scores_checks_and_traces_share_one_run(problem, found):
    one = found.without(0).without(0)  # of a single unit there is nothing to leave out
    inside = Examination(replace(one, values=0.5 * one.values), problem)
    problem.natural_range()
    before = problem.work.forward
    scores, natural = scores_of(inside), natural_range(inside)
    trace_held_out(inside, run=0, seed=0)
    assert problem.work.forward == before + problem.tree.n_live
    assert (natural.flipped, natural.by_direction) == (scores.flip_accuracy, scores.by_direction)
    assert natural.kl == scores.kl == pytest.approx(np.mean([pair.kl for pair in scores.outcomes]), rel=1e-4)
    # Values that lie outside are clamped, which takes a run of its own.
    natural_range(Examination(replace(one, values=100 * one.values), problem))
    assert problem.work.forward == before + 2 * problem.tree.n_live


def test_the_example_is_the_flipped_pair_of_median_strength(problem, found):
    weak = found.without(0)
    examination = Examination(weak, problem)
    target, flipped = examination.target, examination.flipped
    assert 0 < flipped.sum() < len(flipped) and ((target[:, 1] > 0.5) == flipped).all()
    assert (target[:, 0] < 0.5).all()
    after = np.sort(target[flipped, 1])
    assert target[examination.typical, 1] == after[(len(after) - 1) // 2]
    odds = np.array([pair.log_odds for pair in examination.outcomes])
    assert np.allclose(target, 1 / (1 + np.exp(-odds)), atol=1e-6)
    assert scores_of(examination).target == tuple(np.median(target, axis=0))
