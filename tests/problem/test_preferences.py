"""Questions that must stay: what an edit changes of them, and searches that leave them alone."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.planted import PAIRS, PLANTED, pushed

from pivotal import PivotalError, Problem
from pivotal.models.planted import plant
from pivotal.problem.kept import KeptSentences, Stay
from pivotal.problem.objective import Terms
from pivotal.questions import PairSet
from pivotal.searches import Greedy, LearnedMask, Reinforce
from pivotal.searches.tools.hardening import prune
from pivotal.searches.tools.trials import score_runs
from pivotal.units import Unit


def of_class(number: int) -> PairSet:
    """The pairs that planted unit `number` decides alone."""
    chosen = tuple(pair for pair in PAIRS if pair.group == f"class {number}")
    return replace(PAIRS, name=f"class {number}", pairs=chosen)


def keeping(*classes: int, steps: Any = "every", values: Any = "unbounded") -> Problem:
    stays = [Stay(f"kept {c}", pairs=of_class(c)) for c in classes]
    kept = KeptSentences.of(PLANTED.model, stays, steps)
    return Problem(PLANTED.model, PAIRS.sample(120), steps=steps, values=values).keeping(kept)


@pytest.mark.parametrize("steps", ["every", "single"])
def test_the_change_is_the_mean_change_of_the_expected_words_probability(steps):
    problem = keeping(0, steps=steps)
    mask, values = pushed(problem)
    found = problem.preferences.change(problem.run(mask, values).states)
    assert problem.preferences.names == ("class 0",) and found.shape == (1, 2)
    first = {pair.prefix: pair for pair in reversed(of_class(0).pairs)}
    asked = Problem(PLANTED.model, replace(PAIRS, pairs=tuple(first.values())), steps=steps)
    for direction in range(2):  # the planted model prefers every expected word
        edited = asked.run(*(part[:, [direction] * 2] for part in (mask, values))).log_ratio[0].sigmoid()
        expected = (edited - asked.clean_log_ratio.sigmoid()).mean()
        torch.testing.assert_close(found[0, direction], expected, rtol=1e-3, atol=1e-4)


def test_nothing_changes_without_an_edit_and_what_is_flipped_changes_most():
    problem = keeping(0, 1, 2)
    mask, values = pushed(problem)
    nothing = problem.preferences.change(problem.run(torch.zeros_like(mask), values).states)
    assert nothing.shape == (1, 6) and nothing.abs().max() < 1e-6
    only = pushed(problem, PLANTED.units[:1])
    sizes = problem.preferences.change(problem.run(*only).states).abs()[0]
    assert (sizes > 0.2).sum() == 2 and (sizes < 1e-6).sum() == 4, "one unit decides one class"


def test_without_a_label_the_preferred_word_is_expected():
    bare = replace(PAIRS, pairs=tuple(replace(pair, label="") for pair in of_class(0)))
    kept = KeptSentences.of(PLANTED.model, [Stay("bare", pairs=bare)], "every")
    problem = Problem(PLANTED.model, PAIRS.sample(60)).keeping(kept)
    labelled = keeping(0)  # the planted model prefers every expected word
    mask, values = pushed(problem)
    torch.testing.assert_close(
        problem.preferences.change(problem.run(mask, values).states),
        labelled.preferences.change(labelled.run(mask, values).states),
    )


def test_runs_that_change_a_question_too_much_rank_last():
    problem, terms = keeping(0, 1), Terms(max_change=0.02)
    costs = torch.tensor([[0.0, 0.01, -0.01, 0.0, 0.0], [0, 0, 0, 0, -0.03], [0, 0, 0, 0.05, 0]])
    loss = torch.tensor([2.0, 0.1, 0.1])
    assert terms.score(problem, loss, costs).argsort().tolist() == [0, 1, 2]
    assert terms.excess(problem, costs).tolist() == pytest.approx([0.5, 1.5, 2.5])
    # On few sentences, what exceeds the bound is added to the loss.
    few = terms.score(problem, loss, costs, few=True)
    assert few.tolist() == pytest.approx([2.0, 0.1 + 0.5 * 0.5, 0.1 + 0.5 * 1.5])


def test_the_scores_of_the_directions_add_up_to_the_loss_and_the_priced_changes():
    problem, terms = keeping(0, 1), Terms(max_change=0.02)
    mask, values = pushed(problem)
    outcome, price = problem.run(mask, values), torch.tensor([[0.0, 1.0, 2.0, 3.0, 4.0]])
    whole = terms.loss(outcome) + (price * terms.costs(problem, outcome).abs()).sum(1)
    parts = score_runs(problem, terms, price, mask, values).score
    torch.testing.assert_close(parts.sum(1), whole)
    # The prices of one direction reach the score of that direction alone.
    first = score_runs(problem, terms, price * torch.tensor([0.0, 1, 0, 1, 0]), mask, values).score
    torch.testing.assert_close(first[:, 0], parts[:, 0])
    assert first[0, 1] < parts[0, 1]


QUICK = {"max_units": 3, "max_change": 0.02, "batch": 0}


@pytest.mark.parametrize(
    "search",
    [
        LearnedMask(**QUICK, updates=60, refit=40),
        Reinforce(**QUICK, updates=60, refit=40),
        Greedy(**QUICK, candidates=8, sample=24, polish=30, refit=40),
    ],
    ids=["learned", "reinforce", "greedy"],
)
@pytest.mark.slow
def test_a_search_flips_what_may_flip_and_leaves_the_kept_questions_alone(search):
    """Of three classes one is kept: its unit must not be set, and the other two classes flip."""
    problem = keeping(1)
    found = search.solve(problem, seed=0).best
    outcome = problem.run_intervention(found)
    flipped = outcome.flipped()[0]
    groups = [pair.group for pair in problem.pairs]
    for number, most in enumerate((1.0, 0.05, 1.0)):
        of = torch.tensor([group == f"class {number}" for group in groups])
        assert float(flipped[of].float().mean()) == pytest.approx(most, abs=0.06)
    assert problem.preferences.change(outcome.states).abs().max() < 0.03


@pytest.fixture(scope="module")
def entangled() -> tuple[Problem, Unit, Unit]:
    """The unit of class 0 also raises the verbs of class 1, and a decoy lowers them as much. Class 0 is asked, class 1
    is kept, and only the two units together flip the one and leave the other alone."""
    planted = plant()
    model, decoder = planted.model, planted.model._decoder
    verbs = [[model.encode(word).ids[0] for word in pair.words] for c in (0, 1) for pair in of_class(c)[:1]]
    decides = max(planted.units, key=lambda unit: float(decoder[verbs[0][0], unit.index]))
    decoy = planted.decoys[0]
    for pair in of_class(1):
        for word, sign in zip(pair.words, (1.0, -1.0), strict=True):
            token = model.encode(word).ids[0]
            decoder[token, decides.index], decoder[token, decoy.index] = sign, -sign
    kept = KeptSentences.of(model, [Stay("kept", pairs=of_class(1))], "every")
    return Problem(model, of_class(0).sample(60), values="unbounded").keeping(kept), decides, decoy


def test_a_unit_that_only_makes_up_for_a_change_is_not_pruned(entangled):
    problem, decides, decoy = entangled
    mask, values = pushed(problem, [decides, decoy], 0.8)
    mask = mask.bool()
    free = prune(problem, Terms(), mask, values, 0.002, shared=True)
    assert free[0, 0].nonzero()[:, 0].tolist() == [problem.space.flat(decides)]
    assert torch.equal(prune(problem, Terms(max_change=0.02), mask, values, 0.002, shared=True), mask)


def test_a_bound_needs_a_kept_question():
    with pytest.raises(PivotalError, match="max_change bounds the questions of --keep"):
        LearnedMask(max_change=0.1).solve(Problem(PLANTED.model, PAIRS.sample(30)))
    with pytest.raises(PivotalError, match="max_change must be above 0"):
        LearnedMask(max_change=0.0)
