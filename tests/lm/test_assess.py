"""The figures of a model: perplexity as one long pass of torch's own modules has it, agreement as it was published."""

import csv
import json
import math
from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.paths import SHARED, loaded
from torch import nn

from pivotal import PivotalError, load_model, load_phenomenon
from pivotal.files import asset
from pivotal.lm.assess import (
    PUBLISHED,
    agreement,
    assess,
    attractor_numbers,
    perplexity_of,
    score,
)
from pivotal.models import RecurrentLM
from pivotal.models.planted import plant
from pivotal.questions import MinimalPair, PairSet

DATA = SHARED / "data"
WORDS = ("<unk>", "the", "cat", "cats", "<eos>", "sleeps", "sleep", "near", "dogs")
LINES = "the cat sleeps\nthe cats near the dogs sleep\n\nzebras sleep near the cat\nthe dogs\n"
TEXT = tuple(LINES.splitlines(keepends=True))
MODULES = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


def parts(cell: str = "lstm", layers: int = 2) -> tuple[nn.Embedding, Any, nn.Linear]:
    torch.manual_seed(0)
    rnn = MODULES[cell](6, 5, layers)
    for weight in rnn.parameters():
        nn.init.normal_(weight)  # far from uniform predictions, or any stream would do
    return nn.Embedding(len(WORDS), 6), rnn, nn.Linear(5, len(WORDS))


def model_of(cell: str = "lstm", layers: int = 2) -> RecurrentLM:
    return RecurrentLM.from_modules("small", *parts(cell, layers), WORDS)


def by_hand(cell: str, layers: int, ids: list[int], first: int = WORDS.index("<eos>")) -> np.ndarray:
    """-log p of each of the ids, in one pass from the zero state after the first."""
    encoder, rnn, decoder = parts(cell, layers)
    with torch.no_grad():
        logits = decoder(rnn(encoder(torch.tensor([first, *ids[:-1]]))[:, None])[0])[:, 0]
        return nn.functional.cross_entropy(logits, torch.tensor(ids), reduction="none").numpy()


def stream(lines: tuple[str, ...]) -> list[int]:
    known = {word: i for i, word in enumerate(WORDS)}
    return [known.get(word, 0) for line in lines if line.strip() for word in (*line.split(), "<eos>")]


# -- perplexity -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", MODULES)
@pytest.mark.parametrize("layers", [1, 2])
def test_perplexity_is_that_of_one_pass_over_the_joined_sentences(cell, layers):
    ids = stream(TEXT * 12)  # longer than the steps between two readouts
    nats = by_hand(cell, layers, ids)
    found = perplexity_of(model_of(cell, layers), TEXT * 12, columns=1)
    assert found.tokens == len(ids)
    assert found.all == pytest.approx(math.exp(nats.mean()), rel=1e-4)
    known = np.array(ids) != 0
    assert found.without_unk == pytest.approx(math.exp(nats[known].mean()), rel=1e-4)
    assert found.without_unk != pytest.approx(found.all, rel=1e-3)
    assert found.unk_share == pytest.approx(1 - known.mean())


@pytest.mark.parametrize("columns", [3, 7])
def test_columns_begin_at_the_zero_state_and_the_token_before(columns):
    ids = stream(TEXT * 3)
    length = -(-len(ids) // columns)
    nats: list[float] = []
    for start in range(0, len(ids), length):
        first = ids[start - 1] if start else WORDS.index("<eos>")
        nats += by_hand("lstm", 2, ids[start : start + length], first).tolist()
    found = perplexity_of(model_of(), TEXT * 3, columns=columns)
    assert found.all == pytest.approx(math.exp(np.mean(nats)), rel=1e-4)


def test_a_limit_on_tokens_reads_the_beginning():
    ids = stream(TEXT)[:7]
    found = perplexity_of(model_of(), iter(TEXT), tokens=7)
    assert (found.tokens, found.all) == (7, pytest.approx(math.exp(by_hand("lstm", 2, ids).mean()), rel=1e-4))

    def endless() -> Any:
        while True:
            yield TEXT[0]

    assert perplexity_of(model_of(), endless(), tokens=50).tokens == 50


def test_a_model_that_has_diverged_has_a_finite_perplexity():
    encoder, rnn, decoder = parts()
    nn.init.zeros_(decoder.weight)
    with torch.no_grad():
        decoder.bias[:] = torch.arange(len(WORDS)) * -1e5
    model = RecurrentLM.from_modules("diverged", encoder, rnn, decoder, WORDS)
    assert math.isfinite(perplexity_of(model, TEXT).all)


def test_an_eos_that_the_text_has_itself_is_not_counted_twice():
    own = ["<eos> the cat sleeps <eos>\n", "<eos>\n", "the dogs <eos> sleep\n"]
    plain = ["the cat sleeps\n", "the dogs\n", "sleep\n"]
    assert perplexity_of(model_of(), own) == perplexity_of(model_of(), plain)


def test_texts_without_words():
    with pytest.raises(PivotalError, match="at least one sentence"):
        perplexity_of(model_of(), ["\n", " \n"])
    assert perplexity_of(model_of(), ["x\n"]).unk_share == 0.5  # <eos> is known
    with pytest.raises(PivotalError, match="words that small knows, but it has none"):
        perplexity_of(model_of(), ["x\n"], tokens=1)


def test_a_model_that_knows_none_of_the_words_still_has_a_perplexity(tmp_path):
    (tmp_path / "text").write_text("".join(TEXT))
    found = assess(model_of(), phenomena=["gender-bias"], text=tmp_path / "text")
    assert found.perplexity == replace(perplexity_of(model_of(), TEXT), text="text")
    (asked,) = found.agreement
    assert asked.shares == {} and sum(asked.rejected.values()) == len(load_phenomenon("gender-bias"))


def test_other_models_have_agreement_only(tmp_path, monkeypatch):
    (tmp_path / "text").write_text("".join(TEXT))
    expected = assess(plant().model, phenomena=["planted"]).agreement
    monkeypatch.setattr("pivotal.lm.assess.RecurrentLM", type("Other", (), {}))
    found = assess(plant().model, phenomena=["planted"], text=tmp_path / "text")
    assert found.perplexity is None and found.agreement == expected


# -- agreement ------------------------------------------------------------------------------------------------------


def test_the_planted_model_is_always_right_and_its_mirror_never():
    found = agreement(plant().model, load_phenomenon("planted"))
    assert found.shares["all"].value == 1
    pairs = load_phenomenon("planted")
    other = dict(zip(pairs.labels, pairs.labels[::-1], strict=True))
    swapped = PairSet(pairs.name, pairs.labels, tuple(replace(p, label=other[p.label]) for p in pairs))
    assert agreement(plant().model, swapped).shares["all"].value == 0


def test_scores_are_counted_by_construction_and_by_the_numbers_of_both_nouns():
    pairs = load_phenomenon("number-agreement")
    always_plural = score(pairs, np.ones(len(pairs), dtype=np.int64))
    assert (always_plural["all"].n, always_plural["all"].value) == (12000, 0.5)
    figures = {"namepp": (1800, 0.5), "nounpp": (2400, 0.5), "nounpp SS": (600, 0.0), "nounpp SP": (600, 0.0)}
    figures |= {"nounpp PS": (600, 1.0), "nounpp_adv PP": (600, 1.0)}
    assert {name: (always_plural[name].n, always_plural[name].value) for name in figures} == figures
    # A model that follows the nearest noun is wrong exactly where the two nouns differ.
    plural = {word for word, number in attractor_numbers().items() if number == "plural"}
    nearest = [int(bool(plural & set(p.prefix.split()))) for p in pairs]
    attracted = score(pairs, np.array(nearest))
    conditions = [attracted[f"nounpp {c}"].value for c in ("SS", "SP", "PS", "PP")]
    assert conditions == [1.0, 0.0, 0.0, 1.0]


def test_unknown_words_of_natural_sentences_are_read_as_unk():
    def pair(prefix: str, cue: int) -> MinimalPair:
        return MinimalPair(prefix, cue, ("sleeps", "sleep"), "plural", "original")

    pairs = (pair("the cats near the zebra", 1), pair("the zebras near", 1), pair("the cats near", 1))
    natural = agreement(model_of(), PairSet("gulordava", ("singular", "plural"), pairs))
    assert (natural.shares["all"].n, natural.with_unk) == (2, 1)
    assert natural.rejected == {"outside the vocabulary: zebras": 1}
    made = agreement(model_of(), PairSet("lakretz", ("singular", "plural"), pairs))
    assert (made.shares["all"].n, made.with_unk, sum(made.rejected.values())) == (1, 0, 2)


# -- the published figures, by our arithmetic from the published log-probabilities ------------------------------------


@pytest.mark.skipif(not DATA.exists(), reason="needs the shared data")
def test_the_published_log_probabilities_give_the_published_figures_on_generated_tab():
    log_p: dict[tuple[str, ...], dict[str, float]] = defaultdict(dict)
    path = DATA / "gulordava" / "English_best_model_logprobs.tab"
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            key = tuple(row[name] for name in ("pattern", "constr_id", "sent_id", "type"))
            log_p[key][row["class"]] = float(row["hidden650_batch128_dropout0.2_lr20.0"])
    pairs = loaded("paper_pairs").gulordava(DATA / "gulordava" / "generated.tab")
    # Both files have the sentences in the same order.
    right = np.array([p["correct"] > p["wrong"] for p in log_p.values()])
    labels = np.array([pairs.labels.index(pair.label) for pair in pairs])
    found = score(pairs, np.where(right, labels, 1 - labels))
    assert {name: share.n for name, share in found.items()} == {"all": 410, "nonce": 369, "original": 41}
    for name, share in found.items():
        assert round(share.value, 3) == PUBLISHED["gulordava", name]


@pytest.mark.skipif(not DATA.exists(), reason="needs the shared data")
def test_the_published_log_probabilities_give_the_published_figures_on_nounpp():
    pairs, prefers = [], []
    path = DATA / "number-agreement" / "nounpp_gulordava_logprobs.tsv"
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            words, label = (row["correct_verb"], row["wrong_verb"]), row["number_1"]
            prefix = " ".join(row["sentence"].split()[:-1])
            words = words if label == "singular" else words[::-1]
            pairs.append(MinimalPair(prefix, 1, words, label, "nounpp"))
            right = float(row["logp_correct"]) > float(row["logp_wrong"])
            prefers.append(int((label == "plural") == right))
    found = score(PairSet("lakretz", ("singular", "plural"), tuple(pairs)), np.array(prefers))
    assert found["all"].n == 4000
    for name in ("nounpp", "nounpp SS", "nounpp SP", "nounpp PS", "nounpp PP"):
        assert round(found[name].value, 3) == PUBLISHED["lakretz", name]


@pytest.mark.slow
@pytest.mark.parametrize("model", ["wiki-lstm", "wiki-lstm-tied"])
def test_a_bundled_model_scores_what_its_card_says(model):
    card = json.loads(asset("models", model, "card.json").read_text(encoding="utf-8"))
    found = agreement(load_model(model, device="cpu"), load_phenomenon("number-agreement"))
    assert not found.rejected
    for name, value in card["measured"]["number-agreement"]["after"].items():
        assert found.shares[name].value == pytest.approx(value, abs=1e-3)
