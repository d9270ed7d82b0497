"""Prompts of circuit papers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.questions.readers.reading import NUMBER, PROMPTS, read

from pivotal.errors import PivotalError


@pytest.mark.parametrize("lines", [True, False])
def test_prompts_and_answers(lines: bool, tmp_path: Path) -> None:
    text = "\n".join(map(json.dumps, PROMPTS)) if lines else json.dumps(PROMPTS)
    pairs = read(tmp_path, "a.json", text, "circuits")
    assert pairs.labels == NUMBER and len(pairs) == 4
    first, second = pairs[:2]
    assert (first.prefix, first.words, first.cue) == ("The girl", ("has", "have"), 1)
    assert first.counterfactuals == second.counterfactuals == ("The girl", "The girls")
    assert (second.prefix, second.label) == ("The girls", "plural")
    assert "the word that differs from the other prefix" in " ".join(pairs.notes)


def test_prompts_with_sets_of_answers(tmp_path: Path) -> None:
    prompts = {
        "prompts": [
            {"clean": "The war lasted from 1732 to 17", "corrupt": "The war lasted from 1701 to 17",
             "answers": ["33", "34"], "wrong_answers": ["02", "03"]},
        ]
    }  # fmt: skip
    first, second = read(tmp_path, "a.json", json.dumps(prompts), "circuits")
    assert set(first.words) == {"33|34", "02|03"} and (first.cue_word, second.cue_word) == ("1732", "1701")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clean_prefix": 3}, "entry 1, column 'clean_prefix': must be a text, not 3"),
        ({"clean_answer": [3]}, "entry 1, column 'clean_answer': must be a text or a list"),
        ({"clean_answer": ""}, "entry 1: an entry has clean_prefix"),
        ({"clean_answer": " have"}, "two different words"),
    ],
)
def test_bad_prompts(change: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(PivotalError, match=message):
        read(tmp_path, "a.json", json.dumps([{**PROMPTS[0], **change}, PROMPTS[1]]), "circuits")
