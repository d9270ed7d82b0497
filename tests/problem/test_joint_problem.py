"""Several questions asked together: each counts the same, in the loss, in the batches and in what a search keeps."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.planted import PAIRS, PLANTED, pushed
from torch import Tensor

from pivotal import Problem
from pivotal.problem.objective import Terms
from pivotal.questions import PairSet
from pivotal.questions.relabel import pooled
from pivotal.searches.tools.trials import score_runs

OF_CLASS = (PLANTED.units[1], PLANTED.units[2], PLANTED.units[0])
"""For each class, the planted unit that decides it."""
LARGE, SMALL = "class 0", "class 1"


def question(name: str, most: int) -> PairSet:
    """The first pairs of a class, which one planted unit decides alone."""
    return replace(PAIRS, name=name, pairs=tuple(pair for pair in PAIRS if pair.group == name)[:most])


def make(*questions: PairSet) -> Problem:
    return Problem(PLANTED.model, pooled(questions), values="unbounded")


@pytest.fixture(scope="module")
def joint() -> Problem:
    """A large and a small question."""
    return make(question(LARGE, 90), question(SMALL, 15))


def edit(problem: Problem, *classes: int) -> tuple[Tensor, Tensor]:
    """The planted units of these classes, which flip their questions and leave the others alone."""
    return pushed(problem, [OF_CLASS[one] for one in classes])


def prefixes(part: Problem, name: str) -> set[str]:
    return {pair.prefix for pair in part.pairs if pair.group == name}


def test_each_question_counts_the_same_in_the_loss_and_in_the_flips(joint):
    outcome = joint.run(*edit(joint, 0))
    of = np.array([pair.group for pair in joint.pairs])
    assert outcome.flipped()[0].tolist() == (of == LARGE).tolist()
    assert outcome.flips().item() == pytest.approx(0.5), "one of two questions, though it has most pairs"
    each = torch.nn.functional.softplus(outcome.log_ratio[0] + 1)
    loss = Terms().loss(outcome).item()
    assert loss == pytest.approx(np.mean([each[of == name].mean() for name in (LARGE, SMALL)]), rel=1e-4)
    scores = score_runs(joint, Terms(), torch.zeros(1, 1), *edit(joint, 0))
    assert scores.score.sum().item() == pytest.approx(loss, rel=1e-4)
    assert scores.accuracy.sum().item() == pytest.approx(0.5)


def test_each_question_has_as_many_prefixes_in_a_batch_and_in_a_sample(joint):
    batches = joint.batches(16)
    for part in [*batches, joint.sample(16)]:
        assert len(prefixes(part, SMALL)) == 8
        assert len(prefixes(part, LARGE)) in (8, 9)
    for name in (LARGE, SMALL):
        assert set.union(*(prefixes(part, name) for part in batches)) == prefixes(joint, name)


def test_questions_may_share_prefixes():
    """The small question has few prefixes of its own. The others count too, so that a batch does not repeat the few."""
    large = question(LARGE, 90)
    own = [pair for pair in PAIRS if pair.group == LARGE and pair.prefix not in {one.prefix for one in large}]
    shared = make(large, replace(large, name="small", pairs=(*large.pairs[:20], *own[:2])))
    few = {pair.prefix for pair in own[:2]}
    assert len(few) == 2 and len(prefixes(shared, "small")) == 22
    batches = shared.batches(16)
    assert all(len(prefixes(part, "small")) >= 8 for part in [*batches, shared.sample(16)])
    assert not all(few <= prefixes(part, "small") for part in batches)


def test_a_batch_in_one_shape_gives_questions_the_same_weight(joint):
    fixed, batches = joint.fixed_batches(16), joint.batches(16)
    assert len({len(batch) for batch in batches}) > 1, "some batches get examples without weight"
    for number, batch in enumerate(batches):
        fixed.load(number)
        found, expected = (one.run(*edit(joint, 1)) for one in (fixed.anew(), batch))
        assert found.flips().item() == pytest.approx(0.5)
        assert Terms().loss(found).item() == pytest.approx(Terms().loss(expected).item(), rel=1e-5)


def test_the_groups_of_one_question_are_not_weighed():
    """The groups of a single question are constructions, which count as often as they occur."""
    alone = Problem(PLANTED.model, PAIRS.sample(120))
    assert len(alone.pairs.groups) > 1 and alone.tensors.weight is None
    parts = alone.batches(16)
    assert sorted(pair.prefix for part in parts for pair in part.pairs) == sorted(
        pair.prefix for pair in alone.pairs
    )
    outcome = alone.run(*edit(alone, 0))
    assert outcome.flips().item() == outcome.flipped().float().mean().item()
