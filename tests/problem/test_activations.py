"""Moments of the untouched units, compared with states that are computed one sentence at a time."""

import pytest
import torch
from tests.models.tiny import random_model, tokenizer

from pivotal import Problem
from pivotal.models import TransformersLM
from pivotal.models.planted import plant
from pivotal.models.tree import PrefixTree
from pivotal.problem.activations import usual
from pivotal.questions import MinimalPair, PairSet
from pivotal.questions.phenomena.planted import PlantedAgreement


@pytest.mark.parametrize("steps", ["single", "every"])
def test_the_means_are_those_of_the_distinct_edited_states(steps):
    model = plant().model
    problem = Problem(model, PlantedAgreement().pairs().sample(40), steps=steps)
    seen: dict[tuple[int, tuple[int, ...]], torch.Tensor] = {}
    for pair, direction in zip(problem.pairs, problem.direction.tolist(), strict=True):
        ids = model.encode(pair.prefix).ids
        for position in [pair.cue] if steps == "single" else range(len(ids)):
            prefix = ids[: position + 1]
            tree = PrefixTree.build([prefix])
            seen[direction, prefix] = model.states(model.prepare(tree))[-1, 0]
    by_direction = [torch.stack([h for (d, _), h in seen.items() if d == want]) for want in (0, 1)]
    found = problem.measure_activations()
    for direction, states in enumerate(by_direction):
        torch.testing.assert_close(found.own[direction], states.mean(0), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(found.target[1 - direction], states.mean(0), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(
        found.scale, torch.cat(by_direction).std(0, correction=0), atol=1e-4, rtol=1e-3
    )


@pytest.mark.parametrize("steps", ["single", "every"])
def test_the_natural_range_is_that_of_the_edited_states(steps):
    model = plant().model
    problem = Problem(model, PlantedAgreement().pairs().sample(30), steps=steps, values="natural")
    states = []
    for pair in problem.pairs:
        ids = model.encode(pair.prefix).ids
        path = model.states(model.prepare(PrefixTree.build([ids])))[:, 0]
        states.append(path[pair.cue : pair.cue + 1] if steps == "single" else path)
    low, high = problem.natural_range()
    every = torch.cat(states)
    # Fewer than a hundred distinct states: nothing is left out.
    torch.testing.assert_close(low, every.amin(0), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(high, every.amax(0), atol=1e-5, rtol=1e-5)
    for other in (problem.sample(5), problem.on(problem.pairs[:9])):
        assert other.bounds() == problem.natural_range()
    standard = problem.standard()
    torch.testing.assert_close(standard.standardised(high).clamp(max=1), (high > low).float())
    unbounded = Problem(model, problem.pairs, steps=steps, values="unbounded")
    assert unbounded.bounds()[1].eq(1).all() and unbounded.standard().scale.eq(1).all()


def test_the_first_tokens_of_a_transformer_are_no_part_of_the_range():
    pytest.importorskip("transformers")
    model = TransformersLM("tiny", random_model("gpt2"), tokenizer())
    prefixes = ("The doctor", "The doctors", "Some cars", "Some car")
    pairs = PairSet("few", ("a", "b"), tuple(MinimalPair(text, 1, ("runs", "run")) for text in prefixes))
    every, second = (Problem(model, pairs, sites="mlp.1", steps=steps) for steps in ("every", "single"))
    for end, of_the_second in zip(every.natural_range(), second.natural_range(), strict=True):
        torch.testing.assert_close(end, of_the_second)
    # If there is nothing but a first token, the range is its own.
    alone = tuple(MinimalPair(text, 0, ("runs", "run")) for text in ("The", "Some"))
    low, high = Problem(model, PairSet("one", ("a", "b"), alone), sites="mlp.1").natural_range()
    assert (low < high).any()


def test_one_state_in_a_hundred_on_either_side_is_not_usual():
    rows = torch.randn(250, 7, generator=torch.Generator().manual_seed(0))
    low, high = usual(rows)
    ordered = rows.sort(0).values
    assert torch.equal(low, ordered[2]) and torch.equal(high, ordered[-3])
    low, high = usual(rows[:50])
    assert torch.equal(low, rows[:50].amin(0)) and torch.equal(high, rows[:50].amax(0))
