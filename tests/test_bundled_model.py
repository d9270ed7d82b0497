"""The bundled model: what its folder must hold, and the script that makes it."""

import json
from pathlib import Path
from typing import Any

import pytest

from pivotal import load_phenomenon
from pivotal.files import asset

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
