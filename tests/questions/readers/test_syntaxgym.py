"""Suites of SyntaxGym."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.questions.readers.reading import NUMBER, SUITE, read

from pivotal.errors import PivotalError


def test_a_suite_of_syntaxgym(tmp_path: Path) -> None:
    pairs = read(tmp_path, "a.json", json.dumps(SUITE), "syntaxgym")
    assert (pairs.name, pairs.labels) == ("agreement", NUMBER)
    first, second = pairs
    assert (first.prefix, first.cue_word, first.words) == ("The cat near the car", "cat", ("sleeps", "sleep"))
    assert first.counterfactuals == ("The cat near the car", "The cats near the car")
    assert second.label == "plural"


def test_suites_that_cannot_be_asked(tmp_path: Path) -> None:
    two = {**SUITE, "predictions": [{"formula": "(4;%good_sing%) < (4;%good_plur%)"}]}
    with pytest.raises(PivotalError, match="one word after two prefixes"):
        read(tmp_path, "a.json", json.dumps(two), "syntaxgym")
    both = {**SUITE, "predictions": [*SUITE["predictions"], *two["predictions"]]}
    assert "Left out 1 of 3 comparisons" in read(tmp_path, "a.json", json.dumps(both), "syntaxgym").notes[0]
    for change, message in (
        ({"predictions": []}, "a list of predictions"),
        ({"items": 3}, "a list of items"),
        ({"predictions": [{"formula": "(*;%a%) < (*;%b%)"}]}, "none"),
        ({"predictions": [{"formula": "(9;%a%) < (9;%b%)"}]}, "has every condition once, but 'a' 0 times"),
        ({"items": [{}]}, "an item has a list of conditions"),
    ):
        with pytest.raises(PivotalError, match=message):
            read(tmp_path, "a.json", json.dumps({**SUITE, **change}), "syntaxgym")
