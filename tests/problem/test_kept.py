"""What must stay is edited in both directions. If it is text, the KL of the problem is that of the text."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.planted import PAIRS, PLANTED, pushed

from pivotal import PivotalError, Problem, Question
from pivotal.evidence.certify import _prefixes
from pivotal.models.edits import MaskedEdit
from pivotal.models.tree import PrefixTree
from pivotal.problem.divergence import divergence
from pivotal.problem.kept import KeptSentences, Stay
from pivotal.problem.prepare import stays_of
from pivotal.questions import PairSet


def kept(steps: Any) -> KeptSentences:
    lines = tuple(dict.fromkeys(pair.prefix for pair in PAIRS[::75]))
    return KeptSentences.of(PLANTED.model, [Stay("lines", lines=lines)], steps)


@pytest.mark.parametrize("steps", ["every", "single"])
def test_its_kl_is_that_of_the_kept_text(steps):
    plain = Problem(PLANTED.model, PAIRS.sample(60), steps=steps)
    problem = plain.keeping(kept(steps))
    mask, values = pushed(problem)
    outcome = problem.run(mask, values)
    torch.testing.assert_close(outcome.log_ratio, plain.run(mask, values).log_ratio)
    assert problem.positions.live_share == pytest.approx(1)
    assert _prefixes(problem) == _prefixes(plain), "a certificate counts those of the pairs"
    expected, sentences = [], kept(steps)
    weights = [
        1 / len(one.places) / len(sentences.sentences) for one in sentences.sentences for _ in one.places
    ]
    for tokens, cue in zip(sentences.sequences, sentences.cues, strict=True):
        for direction in range(2):
            tree = PLANTED.model.prepare(PrefixTree.build([tokens], [cue], [direction], steps))
            clean, states = (
                PLANTED.model.readout(PLANTED.model.states(tree, edit)[-1:])
                for edit in (None, MaskedEdit(problem.space, mask, values))
            )
            expected.append(divergence(clean[:, 0], states).item())
    mean = np.reshape(expected, (-1, 2)).mean(1) @ weights
    assert float(problem.untouched.mean(outcome.states)[0]) == pytest.approx(mean, rel=1e-3)


def test_kept_questions_leave_the_kl_that_of_the_pairs():
    plain = Problem(PLANTED.model, PAIRS.sample(60))
    stay = Stay("some", pairs=PAIRS[::150])
    problem = plain.keeping(KeptSentences.of(PLANTED.model, [stay], "every"))
    mask, values = torch.ones(1, 2, len(plain.space)), torch.zeros(1, 2, plain.space.coordinates)
    kl = [one.untouched.mean(one.run(mask, values).states) for one in (plain, problem)]
    torch.testing.assert_close(kl[0], kl[1])


def test_parts_of_the_problem_keep_some_sentences_and_statistics_are_of_the_pairs():
    plain = Problem(PLANTED.model, PAIRS)
    problem = plain.keeping(kept("every"))
    for part in (*problem.batches(32), problem.sample(20)):
        assert len(part.examples.leaves) == len(part) < len(part.tree.leaf)
        assert float(part.positions.weight.sum()) == pytest.approx(1)
    assert len(problem.examples.leaves) == len(problem)
    torch.testing.assert_close(problem.measure_activations().own, plain.measure_activations().own)
    torch.testing.assert_close(problem.natural_range()[0], plain.natural_range()[0])
    # A held-out problem has nothing to keep.
    assert len(problem.on(PAIRS[:9]).tree.leaf) == 9


def test_a_line_of_text_stays_at_every_position_and_half_of_the_text_is_held_out():
    (stay,) = stays_of(Question(keep="text"), PLANTED.model)
    assert abs(len(stay.lines) - len(stay.held_out_lines)) <= 1
    assert not set(stay.lines) & set(stay.held_out_lines)
    few = [Stay("few", lines=("The noun0a near noun1a",))]
    every, single = (KeptSentences.of(PLANTED.model, few, steps) for steps in ("every", "single"))
    assert [len(tokens) for tokens in every.sequences] == [1, 2, 3, 4]
    assert [len(tokens) for tokens in single.sequences] == [3, 4] and set(single.cues) == {2}


def test_pairs_of_a_prefix_are_on_one_side():
    (stay,) = stays_of(Question(keep="planted"), PLANTED.model)
    assert not {pair.prefix for pair in stay.pairs} & {pair.prefix for pair in stay.held_out}
    assert stays_of(Question(), PLANTED.model) == []


def test_kept_questions_are_read_as_the_question_is(tmp_path):
    strange = [
        replace(pair, prefix=f"{pair.prefix} zebra", counterfactuals=("", "")) for pair in PAIRS[::150]
    ]
    PairSet("strange", PAIRS.labels, tuple(strange)).save(tmp_path / "strange.jsonl")
    question = Question("planted", "planted", keep=str(tmp_path / "strange.jsonl"))
    with pytest.raises(PivotalError, match="no sentence of"):
        KeptSentences.of(PLANTED.model, stays_of(question, PLANTED.model), "every")
    stays = stays_of(replace(question, unknown="unk"), PLANTED.model)
    assert KeptSentences.of(PLANTED.model, stays, "every").sequences
    held_out = stays[0].held_out
    assert held_out is not None and all(pair.prefix.endswith(" <unk>") for pair in held_out)


def test_what_cannot_be_kept():
    with pytest.raises(PivotalError, match="no sentence of gender-bias"):
        KeptSentences.of(PLANTED.model, stays_of(Question(keep="gender-bias"), PLANTED.model), "every")
    exchanged = Problem(PLANTED.model, PAIRS.sample(30), values="interchange")
    with pytest.raises(PivotalError, match="need a counterfactual prefix for every sentence"):
        exchanged.keeping(kept("every"))
