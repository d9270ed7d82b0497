"""Questions that a search flips and that ask nothing are no evidence; a real question with noisy labels is."""

import random
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from pivotal import Problem, Question, load_model, load_phenomenon
from pivotal.jobs.find import find
from pivotal.models import LanguageModel
from pivotal.questions import PairSet
from pivotal.records.evidence import Verdict
from pivotal.searches import Attribution

pytestmark = pytest.mark.slow
NUMBER = load_phenomenon("number-agreement").sample(1200, seed=1)


@cache
def lstm() -> LanguageModel:
    return load_model("wiki-lstm")


def labelled_by_the_model(*words: tuple[str, str]) -> PairSet:
    """The prefixes of number agreement with words that have nothing to do with it. The labels are the preferences of
    the untouched model."""
    bare = [replace(pair, words=two, label="", lexemes=()) for pair in NUMBER for two in words]
    asked = Problem(lstm(), PairSet("words", ("a", "b"), tuple(dict.fromkeys(bare))))
    labels = [asked.labels[1 - direction] for direction in asked.direction]
    made = (replace(pair, label=label) for pair, label in zip(asked.pairs, labels, strict=True))
    return PairSet("words", ("a", "b"), tuple(made))


def noisy(share: float) -> PairSet:
    rng, other = random.Random(0), dict(zip(NUMBER.labels, NUMBER.labels[::-1], strict=True))
    made = (
        replace(pair, label=other[pair.label], counterfactuals=pair.counterfactuals[::-1])
        if rng.random() < share
        else pair
        for pair in NUMBER
    )
    return PairSet("noisy", NUMBER.labels, tuple(made))


def verdict(pairs: PairSet, place: Path) -> Verdict:
    pairs.save(place / "pairs.jsonl")
    question = Question("wiki-lstm", str(place / "pairs.jsonl"))
    found = find(question, Attribution(), out=str(place / "run"), model=lstm()).summary.verdict
    return found


@pytest.mark.parametrize("words", [[("water", "office")], [("film", "paper"), ("state", "city")]])
def test_labels_that_only_name_what_the_model_prefers_are_no_evidence(words, tmp_path):
    found = verdict(labelled_by_the_model(*words), tmp_path)
    assert found.word == "no evidence" and "the model knows it" in [check.name for check in found.failed]


@pytest.mark.parametrize("share", [0.1, 0.2])
def test_noisy_labels_do_not_hide_a_switch(share, tmp_path):
    assert verdict(noisy(share), tmp_path).word in ("switch", "decide")
