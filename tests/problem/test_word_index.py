"""Word sets and words of several tokens, against log-probabilities of the whole vocabulary, token by token."""

from collections.abc import Callable
from functools import cache

import pytest
import torch
from tests.models import small
from tests.models.tiny import pieces, random_model

from pivotal import Intervention, PivotalError, Problem, load_model
from pivotal.models import LanguageModel, TransformersLM
from pivotal.problem.asking import Asking
from pivotal.questions import MinimalPair, PairSet
from pivotal.searches.base import interventions_of
from pivotal.testing import check_model
from pivotal.units import Steps

LABELS = ("singular", "plural")
PREFIXES = ("The doctor", "Some doctor near The doctor", "The doctor near")
PIECES = (
    ("walks", "walk"),  # one word is the beginning of the other
    ("walk", "walked"),
    ("walks", "walked"),  # walk is shared
    ("runnings", "running"),  # run|ning is shared
    ("is", "runs"),
    ("is|doctor", "walk|jumps"),  # sets, one with a word of two tokens
    ("walk|walked", "walks"),  # a set that has a complete word and another
)
SETS = (("is|was|has", "are|were|have"), ("is", "are"), ("himself|itself", "themselves"))


@cache
def tiny(family: str = "llama") -> LanguageModel:
    return TransformersLM("tiny", random_model(family), pieces())


@cache
def recurrent(cell: str) -> LanguageModel:
    text = "<eos> <unk> The doctor doctors near the car is was has are were have himself itself themselves"
    return small.recurrent(text, cell, 2)


@cache
def wiki() -> LanguageModel:
    return load_model("wiki-lstm", device="cpu")


def pairs_of(words: tuple[tuple[str, str], ...], prefixes: tuple[str, ...] = PREFIXES) -> PairSet:
    return PairSet("some", LABELS, tuple(MinimalPair(p, 1, two) for p in prefixes for two in words))


Next = Callable[[list[int]], torch.Tensor]
"""The log-probabilities of the whole vocabulary after some tokens."""


def naive(model: LanguageModel, pair: MinimalPair, next_log_p: Next) -> tuple[float, float]:
    """log p of the words of both labels, at the first token where they differ."""
    read = list(model.encode(pair.prefix).ids)
    words = [[list(model.tokens_of(word)) for word in side] for side in pair.word_sets]
    while len({tuple(tokens[:1]) for side in words for tokens in side}) == 1:
        read.append(words[0][0][0])
        words = [[tokens[1:] for tokens in side] for side in words]
    p = next_log_p(read).double().exp()
    found = []
    for side, other in (words, words[::-1]):
        tokens = {tokens[0] for tokens in side if tokens}
        if [] in side:  # complete: what follows is another word, punctuation or the end
            taken = {tokens[0] for tokens in other if tokens}
            tokens |= {i for i in range(len(p)) if i not in taken and model.word(i)[:1] == " "}
        found.append(float(p[sorted(tokens)].sum().log()))
    return found[0], found[1]


def intervention_of(problem: Problem, seed: int = 0) -> Intervention:
    """Random units at random values, in both directions."""
    noise = torch.Generator().manual_seed(seed)
    mask = torch.rand(1, 2, len(problem.space), generator=noise) < 0.2
    values = torch.randn(1, 2, problem.space.coordinates, generator=noise).clamp(-1, 1)
    return interventions_of(problem, mask, values)[0]


WORD_LEVEL = ("wiki-lstm", "gru", "rnn")
FAMILIES = ("llama", "gemma2", "cohere", "bloom", "mamba")
"""Trees in one row, soft-capped logits, scaled logits, padded rows, and a model with a state."""


def problem_of(which: str, steps: Steps = "every") -> Problem:
    if which in WORD_LEVEL:
        model = wiki() if which == "wiki-lstm" else recurrent(which)
        return Problem(model, pairs_of(SETS, ("The doctor", "The doctors near the car")), steps=steps)
    return Problem(tiny(which), pairs_of(PIECES), sites="mlp" if which == "llama" else "all", steps=steps)


@pytest.mark.parametrize("steps", ["every", "single"])
@pytest.mark.parametrize("which", [*WORD_LEVEL, *FAMILIES])
def test_log_ratios_are_those_of_the_whole_vocabulary(which, steps):
    problem = problem_of(which, steps)
    model, found = problem.model, intervention_of(problem)
    assert not problem.rejected.total
    after = problem.run_intervention(found).log_ratio[0]
    for e, pair in enumerate(problem.pairs):
        to = int(problem.direction[e])
        clean = naive(model, pair, lambda ids: model.next_logits([ids])[0].log_softmax(-1))
        assert clean[1 - to] - clean[to] == pytest.approx(float(problem.clean_log_ratio[e]), abs=1e-4)
        assert clean[1 - to] >= clean[to], "d is the word that the untouched model prefers"
        edited = model.intervened(found, LABELS[to], cue=pair.cue)
        cue = model.encode(pair.prefix).last_token_of(pair.cue)
        log_p = naive(model, pair, lambda ids, e=edited, c=cue: e.next_logits([ids], c)[0].log_softmax(-1))
        assert log_p[1 - to] - log_p[to] == pytest.approx(float(after[e]), abs=1e-4)


def test_large_sets_give_the_same_values_and_gradients(monkeypatch):
    def outcome() -> tuple[torch.Tensor, torch.Tensor]:
        problem = Problem(tiny(), pairs_of(PIECES), sites="mlp")
        noise = torch.Generator().manual_seed(1)
        mask = (torch.rand(3, 2, len(problem.space), generator=noise) < 0.3).float()
        values = torch.randn(3, 2, problem.space.coordinates, generator=noise).requires_grad_()
        ratio = problem.run(mask, values).log_ratio
        ratio.square().sum().backward()
        return ratio.detach(), values.grad

    small = outcome()
    for entries in (1, 40, 10**6):
        monkeypatch.setattr("pivotal.problem.word_index._LARGE", 2)
        monkeypatch.setattr("pivotal.problem.word_index._ENTRIES", entries)
        for a, b in zip(small, outcome(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_the_contract_holds_for_words_of_several_tokens():
    check_model(tiny(), ["The doctor walks near", "The doctor walks", "The doctor runnings near Some"])


# -- what a contrast is made of --


def sides(*words: str) -> tuple[str, list[str], list[str]]:
    """The shared tokens, and the tokens of both sides, as texts."""
    one = Asking(tiny()).ask(MinimalPair("The doctor", 1, words))
    told = [[tiny().word(token) for token in side] for side in one.sides]
    return "".join(tiny().word(token) for token in one.ids[2:]), told[0], told[1]


def test_the_first_difference():
    assert sides("walks", "walked") == (" walk", ["s"], ["ed"])
    assert sides("runs", "runnings") == (" run", ["s"], ["ning"])
    assert sides("is", "walks") == ("", [" is"], [" walk"])
    shared, complete, longer = sides("running", "runnings")
    assert (shared, longer) == (" running", ["s"])
    assert " doctor" in complete and " ." in complete and not {"s", "ed", "ning"} & set(complete)
    assert len(complete) == 3 + 10, "special tokens, whole words and punctuation"


def test_words_that_cannot_be_compared_are_left_out_of_a_set():
    asking = Asking(tiny())
    one = asking.ask(MinimalPair("The doctor", 1, ("is|walks|zebra", "doctor|walk")))
    assert [[tiny().word(t) for t in side] for side in one.sides] == [[" is"], [" doctor"]]
    assert asking.left_out == {
        "outside the vocabulary: zebra": 1,
        "the words of both labels begin with the same token: walks": 1,
        "the words of both labels begin with the same token: walk": 1,
    }
    with pytest.raises(PivotalError, match="begin with the same token: walks/jumps / walk/jump"):
        asking.ask(MinimalPair("The doctor", 1, ("walks|jumps", "walk|jump")))
    with pytest.raises(PivotalError, match="outside the vocabulary: dax"):
        asking.ask(MinimalPair("The doctor", 1, ("zebra|dax", "walk|jump")))
