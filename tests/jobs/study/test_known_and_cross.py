"""A study can leave out what a model does not know, and ask every intervention the other phenomena."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

import pytest
from small_study import Said

from pivotal.errors import PivotalError
from pivotal.jobs.study.cells import cells_of
from pivotal.jobs.study.job import Studied, study
from pivotal.jobs.study.messages import ending
from pivotal.jobs.study.recipe import Recipe, parse_recipe
from pivotal.questions.question import Question
from pivotal.records.study_rows import UNKNOWN, StudyRow

pytestmark = pytest.mark.slow

RECIPE = """\
name: cross
defaults: {{model: planted, steps: every, search: attribution, max_units: 2, controls: 3, known: true, cross: true}}
grid:
  question:
    - {{label: planted, phenomenon: planted}}
    - {{label: renamed, phenomenon: {folder}/renamed.jsonl}}
    - {{label: chance, phenomenon: {folder}/chance.jsonl}}
    - {{label: strange, phenomenon: continent}}
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    """Beside the planted phenomenon: the same with other labels, with random labels, and one of other words."""
    folder = tmp_path_factory.mktemp("pairs")
    pairs = Question(phenomenon="planted").load_pairs()
    names = dict(zip(pairs.labels, ("one", "many"), strict=True))
    renamed = tuple(dataclasses.replace(pair, label=names[pair.label]) for pair in pairs)
    dataclasses.replace(pairs, name="renamed", labels=("one", "many"), pairs=renamed).save(
        folder / "renamed.jsonl"
    )
    draw = random.Random(0)
    chance = tuple(dataclasses.replace(pair, label=draw.choice(pairs.labels)) for pair in pairs)
    dataclasses.replace(pairs, name="chance", pairs=chance).save(folder / "chance.jsonl")
    return parse_recipe(RECIPE.format(folder=folder), "cross.yaml")


@pytest.fixture(scope="module")
def studied(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Studied:
    return study(recipe, out=tmp_path_factory.mktemp("studies") / "cross")


@pytest.fixture(scope="module")
def rows(studied: Studied) -> dict[str, StudyRow]:
    return {row.name: row for row in studied.rows}


def test_what_the_model_does_not_know_is_not_searched(studied: Studied, rows: dict[str, StudyRow]) -> None:
    assert {name: row.status for name, row in rows.items()} == {
        "planted": "done",
        "renamed": "done",
        "chance": UNKNOWN,
        "strange": UNKNOWN,
    }
    assert "prefers the expected word" in (rows["chance"].error or "")
    assert rows["chance"].clean_accuracy is not None and rows["chance"].clean_accuracy < 0.7
    assert "can be asked" in (rows["strange"].error or "")
    assert not list((studied.folder / "runs").glob("chance-*"))
    assert "Not searched: 2 cells whose model does not know the phenomenon." in ending(studied)


def test_every_intervention_is_asked_the_other_phenomena(rows: dict[str, StudyRow]) -> None:
    judged = rows["planted"].judged
    assert judged is not None
    scores = {score.phenomenon: score for score in judged.cross}
    assert sorted(scores) == ["chance", "renamed"], "itself and what cannot be asked are left out"
    assert scores["renamed"].flipped is None and scores["renamed"].moved > 0.3
    # The sentences are the same, and labels do not enter the flips.
    assert scores["chance"].flipped == pytest.approx(rows["planted"].accuracy, abs=0.15)
    assert judged.verdict in ("nudge", "no evidence") and "random sets" in judged.failed


def test_nothing_is_run_twice(recipe: Recipe, studied: Studied) -> None:
    said = Said()
    again = study(recipe, out=studied.folder, watch=said)
    assert said.cells == []
    assert again.rows == studied.rows and not again.failed


def test_evidence_is_no_part_of_the_key(recipe: Recipe) -> None:
    cells = {cell.name: cell.key for cell in cells_of(recipe)}
    text = recipe.text.replace("controls: 3, known: true, cross: true", "evidence: none")
    assert {cell.name: cell.key for cell in cells_of(parse_recipe(text, "cross.yaml"))} == cells


def test_bad_settings_name_the_line(recipe: Recipe) -> None:
    with pytest.raises(PivotalError, match=r"cross\.yaml, line 2.*'controls' must be 0 to .* it is -1"):
        cells_of(parse_recipe(recipe.text.replace("controls: 3", "controls: -1"), "cross.yaml"))


def test_the_pairs_of_a_study_are_read_from_the_recipe(recipe: Recipe) -> None:
    cell = cells_of(recipe)[0]
    assert cell.others is not None and [Path(name).stem for name in cell.others] == [
        "planted",
        "renamed",
        "chance",
        "continent",
    ]
