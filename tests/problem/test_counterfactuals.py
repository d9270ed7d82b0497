"""Interchange: units take, node by node, the states of the counterfactual prefix."""

from typing import Any

import numpy as np
import pytest
import torch
from tests.models.tiny import random_model, tokenizer
from tests.planted import PAIRS, PLANTED, mask_of

from pivotal import PivotalError, Problem
from pivotal.models import LanguageModel, TransformersLM
from pivotal.models.bases import Basis
from pivotal.models.tree import PrefixTree
from pivotal.questions import MinimalPair, PairSet


def masks(problem: Problem, *sets: Any) -> tuple[torch.Tensor, torch.Tensor]:
    values = torch.full((len(sets), 2, problem.space.coordinates), 9.0)  # which are not used
    return mask_of(problem, *sets), values


@pytest.mark.parametrize("steps", ["single", "every"])
def test_the_planted_units_carry_the_number_and_decoys_do_not(steps):
    problem = Problem(PLANTED.model, PAIRS.sample(120), steps=steps, values="interchange")
    outcome = problem.run(*masks(problem, PLANTED.units, PLANTED.decoys, ()))
    assert outcome.flipped().float().mean(1).tolist() == [1, 0, 0]
    torch.testing.assert_close(outcome.log_ratio[2], problem.clean_log_ratio)


@pytest.mark.parametrize("name", ["planted", "llama", "mistral, short window"])
def test_the_whole_last_site_gives_the_predictions_of_the_counterfactual_prefix(name):
    """What the output projection reads at the last step is then the state of the other prefix."""
    model: LanguageModel = PLANTED.model
    if name == "planted":
        pairs, site = PAIRS.sample(60), "all"
    else:
        model = TransformersLM(name, random_model(name), tokenizer())
        site = [one.name for one in model.sites if one.kind == "resid"][-1]
        words = ("runs", "run")
        forms = [("The doctor near", "The doctors near"), ("Some car quickly", "Some cars quickly")]
        made = [
            MinimalPair(form, 1, words, counterfactuals=both)
            for both in [(a, b) for a, b in forms] + [(b, a) for a, b in forms]
            for form in both
        ]
        pairs = PairSet("few", ("a", "b"), tuple(made))
    problem = Problem(model, pairs, sites=site, values="interchange")
    mask = torch.ones(1, 2, len(problem.space))
    found = problem.run(mask, torch.zeros(1, 2, problem.space.coordinates)).log_ratio[0]
    for i, (pair, to) in enumerate(zip(problem.pairs, problem.direction.tolist(), strict=True)):
        other = MinimalPair(pair.counterfactuals[to], 1, pair.words)
        there = Problem(model, PairSet("other", pairs.labels, (other,)))
        expected = there.clean_log_ratio[0] * (1 if there.direction[0] == to else -1)
        assert float(found[i]) == pytest.approx(float(expected), abs=1e-3)


def test_pairs_that_cannot_be_exchanged_are_counted():
    words = ("verb0as", "verb0a")
    pairs = (
        MinimalPair("The noun0a", 1, words, counterfactuals=("The noun0a", "The noun0as")),
        # the wrong way round
        MinimalPair("The noun0as", 1, words, counterfactuals=("The noun0as", "The noun0a")),
        MinimalPair("The noun0b", 1, words),
        MinimalPair("The noun0c", 1, words, counterfactuals=("The noun0c", "The flurbs")),
    )
    problem = Problem(PLANTED.model, PairSet("few", PAIRS.labels, pairs), values="interchange")
    assert [pair.prefix for pair in problem.pairs] == ["The noun0a"]
    assert dict(problem.rejected.reasons) == {
        "no counterfactual prefix": 1,
        "the prefix already has the form of the cue that calls for the target": 1,
        "outside the vocabulary: flurbs": 1,
    }
    said = r"planted cannot match the only pair with a counterfactual prefix: no counterfactual prefix"
    with pytest.raises(PivotalError, match=said):
        Problem(PLANTED.model, PairSet("none", PAIRS.labels, pairs[2:3]), values="interchange")


def test_equal_prefixes_with_other_counterfactuals_are_other_nodes():
    sequences, sources = [[5, 6], [5, 6], [5, 6]], [[1, 2], [1, 3], [1, 2]]
    tree = PrefixTree.build(sequences, [0] * 3, [0] * 3, "every", sources)
    assert len(tree) == 3 and tree.leaf[0] == tree.leaf[2] != tree.leaf[1]
    assert [tree.source[tree.path(int(leaf))].tolist() for leaf in tree.leaf] == sources
    assert tree.restrict(np.array([1])).source.tolist() == [-1, 1, 3]


def test_means_of_the_counterfactual_states_are_handed_over():
    problem = Problem(PLANTED.model, PAIRS.sample(50), values="interchange")
    means = problem.counterfactual_means
    states = []
    for pair, to in zip(problem.pairs, problem.direction.tolist(), strict=True):
        ids = PLANTED.model.encode(pair.counterfactuals[to]).ids
        path = PLANTED.model.states(PLANTED.model.prepare(PrefixTree.build([ids])))[:, 0]
        states.append({(to, ids[: i + 1]): state for i, state in enumerate(path)})
    distinct = {key: state for one in states for key, state in one.items()}
    for d in range(2):
        rows = torch.stack([state for (to, _), state in distinct.items() if to == d])
        # Nodes are told apart by prefix and counterfactual; here each determines the other.
        torch.testing.assert_close(means[d], rows.mean(0), atol=1e-4, rtol=1e-3)


def test_what_the_model_knows_includes_the_pairs_that_cannot_be_exchanged():
    """The left-out pairs are those that the model gets wrong, so the others would always be right."""
    words = ("verb0as", "verb0a")
    forms = ("The noun0a", "The noun0as")
    made = (
        MinimalPair(both[0], 1, words, PAIRS.labels[0], counterfactuals=both) for both in (forms, forms[::-1])
    )
    pairs = PairSet("half", PAIRS.labels, tuple(made))
    problem = Problem(PLANTED.model, pairs, values="interchange")
    assert len(problem) == 1 and len(problem.whole) == 2 and problem.clean_accuracy == 0.5
    assert problem.restrict([0]).whole is not problem.whole


def test_bases_of_one_name_have_states_of_their_own():
    """All coordinates of a rotation are the whole site, whichever rotation was asked first."""
    own = Problem(PLANTED.model, PAIRS.sample(40), sites="hidden.0", values="interchange")
    expected = own.run(*masks(own, list(own.space))).log_ratio
    for seed in range(2):
        width = own.space.coordinates
        noise = torch.randn(width, width, generator=torch.Generator().manual_seed(seed))
        rows = torch.linalg.qr(noise).Q
        model = PLANTED.model.in_bases({"hidden.0@mine": Basis.rotation("mine", rows)})
        problem = Problem(model, own.examples, sites="hidden.0@mine", values="interchange")
        torch.testing.assert_close(problem.run(*masks(problem, list(problem.space))).log_ratio, expected)
