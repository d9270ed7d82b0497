"""Jobs whose units have several coordinates: attention heads of a tiny random transformer."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.models.tiny import random_model, tokenizer

from pivotal.jobs.find import find
from pivotal.jobs.study.job import study
from pivotal.jobs.study.recipe import parse_recipe
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.questions.question import Question
from pivotal.searches.base import Progress
from pivotal.searches.learned import LearnedMask
from pivotal.stopping import Interrupted

SEARCH = LearnedMask(max_units=2.0, updates=12, refit=4)


@pytest.fixture(scope="module")
def question(tmp_path_factory: pytest.TempPathFactory) -> Question:
    here = tmp_path_factory.mktemp("heads")
    random_model("llama").save_pretrained(here / "tiny")
    tokenizer(bos=True).save_pretrained(here / "tiny")
    nouns, middles = ("doctor", "doctors", "car", "cars"), ("", " near", " behind", " quickly")
    pairs = [MinimalPair(f"The {noun}{middle}", 1, ("runs", "run")) for noun in nouns for middle in middles]
    PairSet("pairs", ("singular", "plural"), tuple(pairs)).save(here / "pairs.jsonl")
    return Question(model=str(here / "tiny"), phenomenon=str(here / "pairs.jsonl"), sites="head", test=4)


class CtrlC:
    """Stops the job at an update."""

    def say(self, text: str) -> None: ...

    def progress(self, progress: Progress) -> None:
        if (progress.phase, progress.update) == ("learn", 6):
            os.kill(os.getpid(), signal.SIGINT)


def summary(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    del content["seconds"]
    return content


@pytest.mark.slow
def test_a_run_on_heads_resumes_to_the_same_result(
    question: Question, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once from the middle of the search, and once from its end, when the units are known."""

    def killed(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    whole = find(question, SEARCH, runs=2, controls=0, out=str(tmp_path / "whole"))
    assert {unit.size for unit in whole.folder.intervention().units} == {4}
    out = tmp_path / "stopped"
    with pytest.raises(Interrupted):
        find(question, SEARCH, runs=2, controls=0, out=str(out), watch=CtrlC())
    assert (out / "checkpoint.pt").is_file() and not (out / "summary.json").exists()
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr("pivotal.jobs.find.summarise", killed)
        find(question, SEARCH, runs=2, controls=0, out=str(out))
    resumed = find(question, SEARCH, runs=2, controls=0, out=str(out))
    assert summary(out) == summary(tmp_path / "whole")
    assert resumed.folder.intervention() == whole.folder.intervention()


@pytest.mark.slow
def test_a_study_of_heads_asks_single_unit_ablation(question: Question, tmp_path: Path) -> None:
    recipe = parse_recipe(
        "name: heads\nruns: 2\nresources: {cpus: 1}\n"
        f"defaults: {{model: '{question.model}', phenomenon: '{question.phenomenon}', sites: head, test: 4,\n"
        "  updates: 8, refit: 2, max_units: 2, ablation: true}\n"
        "grid:\n  steps: [every]\n"
    )
    rows = study(recipe, out=tmp_path / "s").rows
    assert [row.error for row in rows] == [None, None]
    units = [unit for row in rows for unit in row.found]
    assert units and all(unit.by_ablation is not None for unit in units)
    stored = json.loads((tmp_path / "s" / str(rows[0].folder) / "ablation.json").read_text())["units"]
    assert set(stored) == {f"{unit.site}:{unit.index}" for unit in units}
