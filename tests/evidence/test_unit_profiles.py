"""What each unit does in the untouched model: compared with the planted model, whose only layer is its last state."""

import numpy as np
import pytest
import torch
from tests.interventions import intervention_of
from tests.models.tiny import PREFIXES, random_model, tokenizer

from pivotal import Intervention, Problem, load_model, load_phenomenon
from pivotal.evidence.examination import Examination, towards
from pivotal.evidence.unit_profiles import profile_units
from pivotal.models import TransformersLM
from pivotal.models.edits import dense
from pivotal.models.planted import plant
from pivotal.models.tree import PrefixTree
from pivotal.problem.text import OrdinaryText
from pivotal.questions import MinimalPair, PairSet
from pivotal.records.unit_profiles import UnitProfiles

SENTENCES = ["The noun0a quite", "The noun0as near noun1b", "The noun2c often"]


def found() -> Intervention:
    """The planted units, each with values of its own."""
    planted = plant(seed=0)
    values = np.array([[1.0, 0.9, 0.8], [-1.0, -0.7, -0.9]])
    return intervention_of(planted.model, planted.units, values)


@pytest.fixture(scope="module")
def problem() -> Problem:
    return Problem(load_model("planted"), load_phenomenon("planted")[::10], steps="every")


@pytest.fixture(scope="module")
def profiles(problem: Problem) -> UnitProfiles:
    return profile_units(reading(found(), problem, SENTENCES), run=3)


def reading(intervention: Intervention, problem: Problem, sentences: list[str]) -> Examination:
    """The examination of an intervention, with these sentences for ordinary text."""
    examination = Examination(intervention, problem)
    examination.text = OrdinaryText(problem.model, sentences, "three sentences")
    return examination


def test_the_histogram_counts_every_natural_state_once(problem, profiles):
    part = problem.sample(128)
    tree = part.tree
    states = part.tensors.clean[torch.as_tensor(tree.live_row[tree.edited])]
    for unit, one in zip(plant(seed=0).units, profiles.profiles, strict=True):
        own = states[:, unit.index]
        assert (one.natural.low, one.natural.high) == (-1, 1)
        for preferred, label in enumerate(problem.labels):
            there = own[torch.as_tensor(tree.direction[tree.edited] == 1 - preferred)]
            counts = torch.histc(there, bins=40, min=-1, max=1)
            assert list(one.natural.counts[label]) == counts.int().tolist()
        assert one.mean == pytest.approx(float(own.mean()), rel=1e-3, abs=1e-4)


def test_the_highest_and_lowest_words_of_a_text(problem, profiles):
    model = problem.model
    ids = [model.encode(line).ids for line in SENTENCES]
    tree = PrefixTree.build(ids)
    states = model.states(model.prepare(tree))[:, 0]
    for unit, one in zip(plant(seed=0).units, profiles.profiles, strict=True):
        own = states[:, unit.index]
        assert one.highest[0].value == pytest.approx(float(own.max()), rel=1e-3)
        assert one.lowest[0].value == pytest.approx(float(own.min()), rel=1e-3)
        values = [moment.value for moment in one.highest]
        assert values == sorted(values, reverse=True)
        assert len({moment.word for moment in one.highest}) == len(one.highest), "each word once"
        for moment in (*one.highest, *one.lowest):
            said = f"{moment.before} {moment.word} {moment.after}".strip()
            assert any(said in line for line in SENTENCES)


def test_what_is_written_is_the_change_of_the_logits_at_the_last_word(problem, profiles):
    """In a model of one layer there is no other path at the last step."""
    set_to, model = found(), problem.model
    last = problem.sample(16).at_last_step()
    rows = torch.as_tensor(last.tree.live_row[sorted(set(last.tree.leaf.tolist()))])
    clean = last.tensors.clean[rows]
    for i, (unit, one) in enumerate(zip(set_to.units, profiles.profiles, strict=True)):
        for d, label in enumerate(set_to.directions):
            edited = clean.clone()
            edited[:, unit.index] = float(set_to.values[d, i])
            change = (model.readout(edited) - model.readout(clean)).mean(0)
            change -= change.mean()
            best = one.written[label].up[0]
            for own in one.written[label].asked:
                assert own.logit == pytest.approx(
                    float(change[model.tokens_of(own.word)[0]]), rel=1e-2, abs=1e-3
                )
            assert best.logit == pytest.approx(float(change.max()), rel=1e-3)
            assert best.word == model.word(int(change.argmax()))
            assert one.written[label].down[0].logit == pytest.approx(float(change.min()), rel=1e-3)


def transformer(site: str) -> tuple[Intervention, Problem]:
    """Two units of a tiny random transformer."""
    lm = TransformersLM("llama", random_model("llama"), tokenizer(bos=True))
    pairs = PairSet("few", ("a", "b"), tuple(MinimalPair(text, 1, ("runs", "run")) for text in PREFIXES))
    problem = Problem(lm, pairs, sites=site, steps="every")
    units = tuple(problem.space.unit(i) for i in (1, 3))
    values = np.linspace(-2.0, 2.0, 2 * sum(unit.size for unit in units)).reshape(2, -1)
    return Intervention(units, ("a", "b"), values, "every", lm.name, lm.fingerprint(), "few", ""), problem


def test_a_neuron_of_the_last_block_writes_all_that_it_does():
    intervention, problem = transformer("mlp.2")
    made = profile_units(reading(intervention, problem, PREFIXES), run=0)
    assert made.tokens and all(one.highest for one in made.profiles)
    last, model = problem.at_last_step(), problem.model
    for i, one in enumerate(made.profiles):
        for direction, label in enumerate(intervention.directions):
            edit = dense(intervention.without(1 - i), problem.space, model.device)
            with torch.no_grad():
                states = last.run(*towards(edit, [direction, direction])).states[:, 0]
                rows = torch.as_tensor(last.tree.live_row[np.unique(last.tree.leaf)])
                clean = last.tensors.clean[rows]
                change = (model.readout(states[rows]) - model.readout(clean)).mean(0)
            change -= change.mean()
            assert one.written[label].up[0].logit == pytest.approx(float(change.max()), rel=1e-2)
            assert one.written[label].down[0].logit == pytest.approx(float(change.min()), rel=1e-2)


def test_heads_have_states_but_no_known_path():
    intervention, problem = transformer("head")
    made = profile_units(reading(intervention, problem, PREFIXES), run=0)
    for one, unit in zip(made.profiles, intervention.units, strict=True):
        assert one.unit == str(unit) and one.written is None
        assert one.natural.low >= 0 and sum(map(sum, one.natural.counts.values())) > 0, "root mean squares"
