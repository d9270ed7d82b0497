"""`pivotal new-phenomenon`, and a template file where a phenomenon is named."""

import json
from pathlib import Path
from typing import Any

import pytest

TOY = """
labels: [singular, plural]
lexicon:
  noun: [{singular: noun0a, plural: noun0as}, {singular: noun0b, plural: noun0bs}, {singular: noun0c, plural: noun0cs}]
  verb: [{plural: verb0a, singular: verb0as}, {plural: verb0b, singular: verb0bs}]
  near: [near, behind, quite, often]
words: verb
templates: ["The {noun}", "The {noun} {near}"]
"""


def test_it_writes_a_file_that_works(pivotal: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = pivotal("new-phenomenon", "mine")
    assert done.code == 0 and "pivotal find wiki-lstm mine.yaml" in done.out
    assert (tmp_path / "mine.yaml").exists()
    pivotal("new-phenomenon", "mine").refused("mine.yaml exists already")
    told = json.loads(pivotal("new-phenomenon", "other", "--like", "agreement-be", "--json").out)
    assert told == {"path": "other.yaml", "pairs": 840}
    pivotal("new-phenomenon", "third", "--like", "agreement-bee").refused("Did you mean 'agreement-be'?")


def test_a_template_file_is_a_question_and_its_slips_are_told(
    pivotal: Any, run_folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "toy.yaml"
    path.write_text(TOY)
    done = pivotal("evaluate", run_folder, path, "--part", "all", "--json")
    assert done.code == 0 and set(json.loads(done.out)["by_group"]) == {"t01", "t02"}
    path.write_text(TOY.replace("{near}", "{nera}"))
    pivotal("evaluate", run_folder, path).refused("toy.yaml, line 8", "names no list", "Did you mean 'near'?")
