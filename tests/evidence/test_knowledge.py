"""What the untouched model knows, against the whole vocabulary, pair by pair."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.models.small import recurrent
from torch import nn

from pivotal import Problem, load_model, load_phenomenon
from pivotal.evidence.knowledge import cue_swap, few_to_flip, knowledge_of, prefixes_to_flip, warnings_of
from pivotal.evidence.verdict import known
from pivotal.models import RecurrentLM
from pivotal.models.planted import plant
from pivotal.questions import MinimalPair, PairSet
from pivotal.records import serial
from pivotal.records.evidence import Evidence

WORDS = ["<eos>", "<unk>", "The", "cat", "cats", "near", "sleeps", "sleep", "runs", "run"]
LABELS = ("singular", "plural")


def model() -> RecurrentLM:
    return recurrent(WORDS, hidden=7, seed=3)


def problem() -> Problem:
    made = [
        MinimalPair(prefix, 1, words, label, group)
        for prefix, label, group in (
            ("The cat", "singular", "short"),
            ("The cats", "plural", "short"),
            ("The cats near The cat", "plural", "long"),
            ("The cat near", "", "open"),
        )
        for words in (("sleeps", "sleep"), ("runs", "run"), ("runs|sleeps", "run|sleep"))
    ]
    return Problem(model(), PairSet("some", LABELS, tuple(made)))


def test_counts_and_shares(monkeypatch):
    asked = problem()
    found = knowledge_of(asked)
    preferred = [LABELS[1 - d] for d in asked.direction]
    right = [p == pair.label for p, pair in zip(preferred, asked.pairs, strict=True) if pair.label]
    assert (found.pairs, found.clusters, found.labelled) == (12, 4, 9)
    assert found.accuracy.value == pytest.approx(sum(right) / 9)
    assert found.accuracy.value == pytest.approx(asked.clean_accuracy)
    assert {label: part.pairs for label, part in found.by_label.items()} == {"singular": 3, "plural": 6}
    assert {label: part.preferred for label, part in found.by_label.items()} == {
        label: preferred.count(label) for label in LABELS
    }
    assert found.directions == {"singular": preferred.count("plural"), "plural": preferred.count("singular")}
    assert found.one_sided == max(preferred.count(label) for label in LABELS) / 12
    assert list(found.by_group) == ["short", "long"], "no pair of the group 'open' states what is expected"
    monkeypatch.setattr("pivotal.evidence.knowledge._ROWS", 2)
    assert knowledge_of(problem()) == found, "whatever the chunks"


def test_mass_and_rank():
    asked = problem()
    lm, mass, rank = asked.model, [], []
    for pair in asked.pairs:
        p = lm.next_logits([lm.encode(pair.prefix).ids])[0].softmax(-1)
        words = [sum(float(p[lm.tokens_of(word)[0]]) for word in side) for side in pair.word_sets]
        mass.append(sum(words))
        rank.append(1 + int((p > max(words) * (1 + 1e-6)).sum()))
    found = knowledge_of(asked)
    assert found.mass == pytest.approx(np.median(mass), rel=1e-4) and found.sampled is None
    assert found.rank == np.median(rank)
    assert len(mass) % 2 == 0 and np.median(mass) != pytest.approx(sorted(mass)[5], rel=1e-3)


def test_a_word_is_not_more_likely_than_itself():
    asked = Problem(load_model("wiki-lstm"), load_phenomenon("number-agreement").sample(60))
    lm, rank = asked.model, []
    for pair in asked.pairs:
        p = lm.next_logits([lm.encode(pair.prefix).ids])[0]
        rank.append(1 + int((p > max(p[lm.tokens_of(word)[0]] for word in pair.words)).sum()))
    assert knowledge_of(asked).rank == np.median(rank)


def test_pairs_without_labels_and_with_one_direction():
    pairs = load_phenomenon("planted")
    bare = PairSet("bare", pairs.labels, tuple(replace(pair, label="") for pair in pairs[:40]))
    found = knowledge_of(Problem(plant().model, bare))
    assert (found.accuracy, found.labelled, found.by_group) == (None, 0, {})
    assert all(part.accuracy is None for part in found.by_label.values())
    one = PairSet("one", pairs.labels, tuple(pair for pair in pairs if pair.label == "plural"))
    found = knowledge_of(Problem(plant().model, one))
    assert found.by_label["singular"].accuracy is None and found.one_sided == 1.0
    assert found.directions == {"singular": len(one), "plural": 0}


def test_a_model_that_is_right_because_the_labels_name_its_favourite_words_knows_nothing():
    torch.manual_seed(3)
    decoder = nn.Linear(7, len(WORDS))
    with torch.no_grad():
        decoder.bias[WORDS.index("sleeps")] = decoder.bias[WORDS.index("run")] = 9.0
    lm = RecurrentLM.from_modules("biased", nn.Embedding(len(WORDS), 6), nn.LSTM(6, 7), decoder, WORDS)
    ends = ("near", "near The", "The", "The cat", "The cats", "near The cats")
    made = [
        MinimalPair(
            f"The {noun} {end}", 1, words, label, counterfactuals=(f"The cat {end}", f"The cats {end}")
        )
        for noun in ("cat", "cats")
        for end in ends
        for words, label in ((("sleeps", "sleep"), "singular"), (("runs", "run"), "plural"))
    ]
    biased = Problem(lm, PairSet("biased", LABELS, tuple(made)))
    found, swap = knowledge_of(biased), cue_swap(biased)
    assert found.accuracy.value == 1
    assert found.cue_tells == 0 and known(Evidence(knowledge=found)).passed is False
    told = known(Evidence(knowledge=serial.replace(found, cue_tells=1.0), swap=swap))
    assert swap.flipped.value == 0 and told.passed is False
    assert any("the cue does not decide" in warning for warning in warnings_of(found))


def test_prefixes_to_flip_are_counted_with_and_without_the_vocabulary():
    # At a single step, a prefix with two cues is two nodes, but one prefix.
    pairs = [replace(pair, cue=cue) for pair in problem().pairs for cue in (0, 1)]
    asked = Problem(model(), PairSet("twice", LABELS, tuple(pairs)), steps="single")
    towards = prefixes_to_flip(asked)
    ways = {(pair.prefix, d) for pair, d in zip(asked.pairs, asked.direction.tolist(), strict=True)}
    assert towards == knowledge_of(asked).prefixes_towards and sum(towards.values()) == len(ways)
    (said,) = few_to_flip(towards, 4, 0.2)
    assert said.startswith("Of the 4 held-out prefixes,") and "needs 10 each" in said
    assert few_to_flip({"singular": 10, "plural": 10}, 20, 0.2) == ()
