"""Questions that ask nothing get no verdict above "no evidence", however much a search flips; noisy labels do."""

import random
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from tests.paths import loaded

from pivotal import Question, load_model, load_phenomenon
from pivotal.jobs.find import find
from pivotal.models import LanguageModel
from pivotal.questions import PairSet
from pivotal.records.summary import Summary
from pivotal.searches import Attribution, LearnedMask, Search

PLANTED = load_phenomenon("planted")
LABELS = PLANTED.labels


@cache
def model(name: str) -> LanguageModel:
    return load_model(name)


def asked(name: str, pairs: PairSet, place: Path, search: Search) -> Summary:
    pairs.save(place / "pairs.jsonl")
    question = Question(name, str(place / "pairs.jsonl"))
    return find(question, search, out=str(place / "run"), model=model(name)).summary


def relabelled(pairs: PairSet, labels: list[str]) -> PairSet:
    """The pairs with other labels, and so without counterfactual prefixes for them."""
    made = (
        replace(pair, label=label, counterfactuals=("", ""))
        for pair, label in zip(pairs, labels, strict=True)
    )
    return PairSet("nonsense", pairs.labels, tuple(made))


def shuffled(pairs: PairSet) -> PairSet:
    labels = [pair.label for pair in pairs]
    random.Random(0).shuffle(labels)
    return relabelled(pairs, labels)


SOME = PLANTED.sample(90, seed=1)
NONSENSE = {
    "shuffled labels": shuffled(SOME),
    "one direction": PairSet("one", LABELS, tuple(pair for pair in SOME if pair.label == "plural")),
    "twelve pairs": PLANTED.sample(12, seed=2),
    "no labels": relabelled(SOME, [""] * len(SOME)),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_is_no_evidence(name, tmp_path):
    found = asked("planted", NONSENSE[name], tmp_path, LearnedMask(max_units=3, updates=30, refit=10))
    assert found.verdict.word == "no evidence", found.verdict
    assert "the model knows it" in [check.name for check in found.verdict.checks if not check.passed]


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    return loaded("unasked_questions", "benchmarks")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "index"),
    [
        *(("random_labels", 0), ("one_bias", 1), ("never_predicted", 0)),
        *(("model_labelled", index) for index in (0, 1)),
    ],
)
def test_nonsense_in_a_trained_model_is_no_evidence(bench, kind, index, tmp_path):
    """Through a search, which the bench of the verdict leaves out where the untouched model's checks fail."""
    pairs = getattr(bench, kind)(model("wiki-lstm"), index)
    found = asked("wiki-lstm", pairs, tmp_path, LearnedMask(updates=30, refit=10))
    assert found.verdict.word == "no evidence", found.verdict


@pytest.mark.slow
@pytest.mark.parametrize("tenths", [1, 2])
def test_noisy_labels_do_not_hide_a_switch(bench, tenths, tmp_path):
    found = asked("wiki-lstm", bench.noisy(model("wiki-lstm"), tenths), tmp_path, Attribution())
    assert found.verdict.word in ("switch", "decide"), found.verdict
