"""Fidelity: what an edit closes of the gap to what the model says after the counterfactual prefix."""

from typing import Any

import numpy as np
import pytest
import torch
from tests import planted
from tests.planted import PLANTED, set_to

from pivotal import Intervention, Problem
from pivotal.evidence.examination import Examination
from pivotal.evidence.fidelity import Gap, fidelity_of
from pivotal.models.edits import MaskedEdit
from pivotal.models.tree import PrefixTree
from pivotal.questions import MinimalPair, PairSet

PAIRS = planted.PAIRS.sample(90)


def edited(problem: Problem, units: Any) -> Intervention:
    """Set units to their means under the target label."""
    return set_to(problem, units, problem.measure_activations().target[None])


@pytest.mark.parametrize("steps", ["single", "every"])
def test_the_untouched_model_closes_nothing_and_a_whole_exchange_closes_everything(steps):
    problem = Problem(PLANTED.model, PAIRS, steps=steps, values="interchange")
    mask = torch.tensor([0.0, 1.0])[:, None, None].expand(-1, 2, len(problem.space))
    states = problem.run(mask, torch.zeros(2, 2, problem.space.coordinates)).states
    gap = Gap(problem, states)
    untouched, whole = gap.closed
    for share in untouched:
        assert (share.value, share.low, share.high) == pytest.approx((0, 0, 0), abs=1e-6)
    for share in whole:  # a plain RNN has no state but the one that is exchanged
        assert share.value == pytest.approx(1, abs=1e-5)
    assert gap.split(problem.untouched.at(states)[:, 0]) == pytest.approx((0, 0, 0), abs=1e-6)


def test_it_is_the_ratio_of_two_divergences_over_the_whole_vocabulary():
    pairs = PairSet("one", PAIRS.labels, tuple(pair for pair in PAIRS if " " in pair.prefix[4:])[:1])
    problem = Problem(PLANTED.model, pairs, steps="every")
    intervention = edited(problem, PLANTED.units)
    found = fidelity_of(Examination(intervention, problem), limits=True)
    (pair,), (to,) = pairs, problem.direction.tolist()

    def said(text: str, edit: MaskedEdit | None = None) -> torch.Tensor:
        model = PLANTED.model
        tree = PrefixTree.build([model.encode(text).ids], [0], [to], "every")
        return model.readout(model.states(model.prepare(tree), edit)[:, 0]).log_softmax(-1)

    def kl(p: torch.Tensor, q: torch.Tensor) -> np.ndarray:
        return (p.exp() * (p - q)).sum(-1).numpy()

    own, other = said(pair.prefix), said(pair.counterfactuals[to])
    after = said(pair.prefix, MaskedEdit.of(intervention, problem.space))
    gap, left, cost = kl(other, own), kl(other, after), kl(own, after)
    cue = pair.cue or 0
    assert cue == 1  # `The noun`, so one position comes before it
    assert found.asked.value == pytest.approx(1 - left[-1] / gap[-1], abs=1e-4)
    assert found.from_cue.value == pytest.approx(1 - left[cue:].mean() / gap[cue:].mean(), abs=1e-4)
    assert found.gap == pytest.approx((gap[-1], gap[cue:].mean()), abs=1e-4)
    split = (found.kl_before, found.kl_between, found.kl_asked)
    assert split == pytest.approx((cost[:cue].mean(), cost[cue:-1].mean(), cost[-1]), abs=1e-4)
    assert found.ceiling == pytest.approx((1, 1), abs=1e-4)
    assert found.floor is not None and max(map(abs, found.floor)) < 0.1


def test_planted_units_close_the_gap_and_decoys_do_not_and_nothing_is_run_again():
    problem = Problem(PLANTED.model, PAIRS)
    shares = []
    for units in (PLANTED.units, PLANTED.decoys):
        examination = Examination(edited(problem, units), problem)
        assert examination.flipped is not None
        before = problem.work.forward
        found = fidelity_of(examination)
        assert found is not None and problem.work.forward == before
        shares.append(found.asked.value)
    assert shares[0] > 0.7 and abs(shares[1]) < 0.05


def test_without_a_counterfactual_prefix_there_is_no_fidelity():
    words = PAIRS[0].words
    problem = Problem(PLANTED.model, PairSet("bare", PAIRS.labels, (MinimalPair("The noun0a", 1, words),)))
    assert fidelity_of(Examination(edited(problem, PLANTED.units), problem)) is None
