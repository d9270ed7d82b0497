"""Traces against what is known of an intervention, and against the evaluation, on every way that models run trees."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from tests.interventions import intervention_of
from tests.models.tiny import WORDS, random_model, tokenizer

from pivotal import Intervention, Problem, evaluate, load_model, load_phenomenon, trace
from pivotal.evidence.trace import trace_pairs
from pivotal.models import LanguageModel, TransformersLM
from pivotal.models.planted import plant
from pivotal.questions import MinimalPair, PairSet
from pivotal.records.traces import Trace
from pivotal.units import Steps

LABELS = ("singular", "plural")
MODELS = ("planted", "llama", "mistral, short window", "mamba")
EACH = pytest.mark.parametrize("name", [*MODELS, pytest.param("wiki-lstm", marks=pytest.mark.slow)])
"""Level by level (one layer and two), a tree packed into a row, padded rows of attention and of recurrence."""


@cache
def model_of(name: str) -> LanguageModel:
    if name in ("planted", "wiki-lstm"):
        return load_model(name, device="cpu")
    return TransformersLM(name, random_model(name), tokenizer(bos=True))


@cache
def pairs_of(name: str) -> PairSet:
    if name in ("planted", "wiki-lstm"):
        return load_phenomenon({"planted": "planted", "wiki-lstm": "number-agreement"}[name]).sample(40)
    prefixes = [
        f"{a} {b} {c} {d}" for a in WORDS[:2] for b in WORDS[2:6] for c in WORDS[6:8] for d in WORDS[:5]
    ]
    return PairSet("tiny", LABELS, tuple(MinimalPair(prefix, 1, ("runs", "run")) for prefix in prefixes))


def some_intervention(model: LanguageModel, steps: Steps, units: int = 20) -> Intervention:
    """Units all over the model, at values that are felt; one of them is left alone in one direction."""
    space = model.unit_space()
    rng = np.random.default_rng(2)
    active = np.ones((2, units), dtype=bool)
    active[1, 0] = False
    chosen = [space.unit(int(i)) for i in sorted(rng.choice(len(space), units, replace=False))]
    return intervention_of(model, chosen, rng.choice([-0.9, 0.9], (2, units)), steps, active=active)


def traced(name: str, steps: Steps) -> tuple[Intervention, Problem, list[Trace]]:
    model = model_of(name)
    intervention = some_intervention(model, steps)
    problem = Problem(model, pairs_of(name), steps=steps)
    traces = trace_pairs(model, intervention, problem.pairs.pairs, problem.direction.tolist())
    return intervention, problem, traces


@pytest.mark.parametrize("steps", ["single", "every"])
@EACH
def test_units_have_the_values_where_they_are_edited_and_nothing_stirs_before(name, steps):
    intervention, problem, traces = traced(name, steps)
    for found, pair in zip(traces, problem.pairs, strict=True):
        d = found.target
        untouched, edited = np.array(found.activation.untouched), np.array(found.activation.edited)
        where, on = np.array(found.edited), intervention.active[d]
        assert found.cue is not None and found.tokens[found.cue] == pair.cue_word
        assert where.tolist() == [steps == "every" or step == found.cue for step in range(len(where))]
        set_to = np.repeat(intervention.values[d][:, None], where.sum(), 1)
        np.testing.assert_array_equal(edited[on][:, where], set_to[on])
        first = int(where.argmax())
        np.testing.assert_array_equal(edited[:, :first], untouched[:, :first])
        assert not any(found.kl[:first]) and not np.array(found.change)[:, :first].any()
        assert min(found.kl[first:]) > 0
        assert np.array(found.change)[-1, first:].min() > 0, "in-stream: the last layer sees every edit"


@pytest.mark.parametrize("steps", ["single", "every"])
@EACH
def test_the_last_step_is_what_the_evaluation_scores(name, steps):
    intervention, problem, traces = traced(name, steps)
    scores = evaluate(intervention, problem)
    assert max(abs(o.log_odds[1] - o.log_odds[0]) for o in scores.outcomes) > 0.1, "it is felt"
    for found, outcome in zip(traces, scores.outcomes, strict=True):
        assert found.log_odds == pytest.approx(outcome.log_odds, abs=2e-4)
        assert found.flipped == outcome.flipped
        assert sum(found.kl) / (len(found.kl) + 1) == pytest.approx(outcome.kl, rel=5e-4, abs=1e-4)
        assert (found.prefix, found.words) == (outcome.prefix, outcome.words)
        assert found.direction == outcome.direction
    assert np.mean([o.kl for o in scores.outcomes]) == pytest.approx(scores.kl, rel=1e-4)
    assert np.mean([o.flipped for o in scores.outcomes]) == scores.flip_accuracy.value


def test_the_untouched_side_is_the_model_s_own():
    """Block outputs and probabilities as transformers itself gives them."""
    model = model_of("llama")
    assert isinstance(model, TransformersLM)
    units = tuple(unit for unit in model.unit_space("resid.0,resid.1") if unit.index in (2, 11))
    intervention = some_intervention(model, "every", units=len(units))
    intervention = replace(intervention, units=units)
    found = trace(intervention, model, MinimalPair("The doctor near cars", 1, ("runs", "run")))
    ids = torch.tensor([[*model.vocabulary.priming, *model.encode(found.prefix).ids]])
    with torch.no_grad():
        said = model.network(input_ids=ids, output_hidden_states=True)
    expected = [
        said.hidden_states[1 + int(unit.site[-1])][0, 1:, unit.index].tolist() for unit in intervention.units
    ]
    np.testing.assert_allclose(found.activation.untouched, expected, atol=1e-5)
    log_p = said.logits[0, 1:].log_softmax(-1)[:, [model.tokens_of(w)[0] for w in found.words]]
    np.testing.assert_allclose(found.log_p.untouched, log_p.T, atol=1e-5)
    assert found.frame.layers == ("resid.0", "resid.1", "resid.2")


def test_a_head_is_shown_by_the_root_mean_square_of_its_coordinates():
    model = model_of("llama")
    units = tuple(unit for unit in model.unit_space("head.0,head.2") if unit.index in (1, 3))
    values = np.random.default_rng(0).normal(size=(2, sum(unit.size for unit in units)))
    plain = some_intervention(model, "single", units=4)
    heads = Intervention(**{**vars(plain), "units": units, "values": values, "active": np.ones((2, 4), bool)})
    found = trace(heads, model, MinimalPair("The doctor near cars", 1, ("runs", "run")))
    by_head = values.reshape(2, len(units), -1)[found.target]
    expected = np.sqrt((by_head**2).mean(-1))
    np.testing.assert_allclose(np.array(found.activation.edited)[:, 1], expected, rtol=1e-5)
    np.testing.assert_allclose(found.frame.values[found.target], expected, rtol=1e-5)
    assert found.activation.untouched[0][1] != pytest.approx(expected[0])


def test_a_planted_unit_is_all_that_changes_its_verb():
    planted = plant()
    intervention = intervention_of(planted.model, planted.units, [[0.9] * 3, [-0.9] * 3], "single")
    pair = MinimalPair("The noun0a near", 1, ("verb0as", "verb0a"), "singular")
    to = trace(intervention, planted.model, pair)
    assert to.direction == "plural" and to.flipped and to.log_odds[0] < 0 < to.log_odds[1]
    as_it_is = trace(intervention, planted.model, pair, direction="singular")
    assert as_it_is.direction == "singular" and not as_it_is.flipped and as_it_is.log_odds[0] > 0
    signs = np.sign(np.array(to.activation.edited)[:, 1:])
    assert (signs == -1).all(), "latched: what is set at the cue stays"
