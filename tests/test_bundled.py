"""The bundled model as its users meet it: as good as its card says, and open to interventions."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.interventions import intervention_of

from pivotal import Intervention, PivotalError, load_model, load_phenomenon
from pivotal.files import asset
from pivotal.models import LanguageModel
from pivotal.testing import check_model
from pivotal.units import Steps

PROMPT = "The doctor near the cars"


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return load_model("wiki-lstm", device="cpu")


def some_intervention(model: LanguageModel, steps: Steps = "every") -> Intervention:
    """Not a good one, but one that is felt."""
    space = model.unit_space()
    rng = np.random.default_rng(0)
    units = [space.unit(int(i)) for i in sorted(rng.choice(len(space), 40, replace=False))]
    return intervention_of(model, units, rng.choice([-0.9, 0.9], (2, 40)), steps)


def test_it_has_the_layers_of_the_papers_lstm(model):
    assert [(site.name, site.width) for site in model.sites] == [("hidden.0", 650), ("hidden.1", 650)]


@pytest.mark.slow
def test_it_keeps_the_contract_of_a_model(model):
    check_model(model, [PROMPT, "The doctor near", "The doctors", "Some cars"])


# -- next words and texts, untouched and intervened on --


def test_next_words_are_the_likeliest_in_order(model):
    found = model.next_words(PROMPT, k=7)
    assert repr(found[:1]) == f"[({found[0].word!r}, {found[0].probability:.3g})]"
    p = [q for _, q in found]
    assert len(found) == 7 and p == sorted(p, reverse=True) and 0 < sum(p) <= 1
    logits = model.next_logits([model.encode(PROMPT).ids])[0]
    assert model.tokens_of(found[0][0])[0] == int(logits.argmax())
    assert sum(q for _, q in model.next_words(PROMPT, k=10**6)) == pytest.approx(1, abs=1e-4)


def test_an_intervention_does_not_change_the_model(model):
    intervention, before = some_intervention(model), model.next_words(PROMPT)
    singular, plural = (model.intervened(intervention, label) for label in ("singular", "plural"))
    assert before != singular.next_words(PROMPT) != plural.next_words(PROMPT) != before
    assert model.next_words(PROMPT) == before


def test_a_single_step_intervention_acts_at_its_cue(model):
    single = some_intervention(model, "single")
    found = {}
    for cue in ("doctor", 1, "1", "cars"):
        found[cue] = model.intervened(single, "plural", cue=cue).next_words(PROMPT)
    assert found["doctor"] == found[1] == found["1"] != found["cars"]
    with pytest.raises(PivotalError, match="acts at one word"):
        model.intervened(single, "plural")
    for cue in ("nurse", 5, -1):
        with pytest.raises(PivotalError, match="word of the prompt"):
            model.intervened(single, "plural", cue=cue).next_words(PROMPT)


def test_generated_texts_go_on_from_the_prompt(model):
    greedy = model.generate(PROMPT, words=4, temperature=0.0)
    assert greedy == model.generate(PROMPT, words=4, temperature=0.0, seed=1)
    assert greedy == model.generate(PROMPT, words=4, temperature=1e-39)  # logits divided by it are infinite
    drawn, again, other = (model.generate(PROMPT, words=4, samples=3, seed=seed) for seed in (2, 2, 0))
    assert drawn == again != other
    for text in (*greedy, *drawn):
        assert text.startswith(PROMPT + " ") and len(text.split()) == 9
        assert "<unk>" not in text
    # The first generated word is the likeliest that may be said.
    likeliest = [word for word, _ in model.next_words(PROMPT) if word != "<unk>"]
    assert greedy[0].split()[5] == likeliest[0]


def test_an_intervention_found_with_another_priming_is_refused(model):
    primed = load_model("wiki-lstm", device="cpu", priming="The doctor . <eos>")
    with pytest.raises(PivotalError, match=r"was found with .* priming"):
        primed.intervened(some_intervention(model), "plural")
    edited = primed.intervened(some_intervention(model), "plural", any_model=True)
    assert torch.isfinite(edited.next_logits([primed.encode(PROMPT).ids])).all()


# -- the folder --


MODELS = asset("models")
FOLDER = MODELS / "wiki-lstm"
BOTH = pytest.mark.parametrize("folder", [FOLDER, MODELS / "wiki-lstm-tied"], ids=lambda folder: folder.name)
PHENOMENA = ("number-agreement", "gender-bias")
CONSTRUCTIONS = {"simple", "adv", "adv_adv", "adv_conjunction", "namepp", "nounpp", "nounpp_adv"}


def words_of(*phenomena: str) -> set[str]:
    return {
        word
        for name in phenomena
        for pair in load_phenomenon(name)
        for word in (*pair.prefix.split(), *pair.words)
    }


def vocabulary(folder: Path) -> list[str]:
    lines = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
    assert lines.pop() == ""
    return lines


def read_json(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


@BOTH
def test_folder_is_at_most_24_megabytes(folder):
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 24_000_000


@BOTH
def test_vocabulary_has_every_word_of_the_phenomena_once(folder):
    config, words = read_json(folder / "config.json"), vocabulary(folder)
    assert len(words) == len(set(words)) == config["words"]
    assert {config["eos"], config["unk"], ".", ",", '"', "(", ")"} <= set(words)
    assert words_of(*PHENOMENA) - set(words) == set()


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("wiki-lstm-tied", "number-agreement"),
        ("wiki-lstm", "number-agreement"),
        ("wiki-lstm", "lakretz:number-agreement"),
    ],
)
def test_the_card_says_that_no_construction_moved_by_half_a_point(model, name):
    measured = read_json(MODELS / model / "card.json")["measured"][name]
    assert set(measured["before"]) == set(measured["after"]) == CONSTRUCTIONS | {"all"}
    for group, share in measured["before"].items():
        assert abs(measured["after"][group] - share) <= 0.005, group


def test_card_has_gender_perplexity_and_provenance():
    card = read_json(FOLDER / "card.json")
    gender, perplexity = card["measured"]["gender-bias"], card["measured"]["perplexity"]
    assert abs(gender["after"]["prefers_he"] - gender["before"]["prefers_he"]) <= 0.005
    assert perplexity["sentences"] >= 5000
    fair = perplexity["same_targets_same_choices"]
    assert fair["after"] == pytest.approx(fair["before_reading_cut_words"], rel=0.005)
    assert "CC BY-SA" in card["licence"]
    assert {"summary", "source", "command"} <= set(card)
