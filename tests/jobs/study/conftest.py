"""A small study and a small atlas that have run to their ends; nobody writes to them."""

import dataclasses
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from small_study import ATLAS, tiny

from pivotal import Question, study
from pivotal.jobs.study.job import Studied
from pivotal.jobs.study.recipe import Recipe, parse_recipe
from pivotal.questions.relabel import relabelled


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study") / "tiny"
    study(tiny(), out=path)
    return path


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Callable[[], Path]:
    return lambda: Path(shutil.copytree(finished, tmp_path / "tiny"))


@pytest.fixture(scope="session")
def atlas_recipe(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    """Beside the planted phenomenon: the same with other labels, with random labels, and one of other words."""
    folder = tmp_path_factory.mktemp("pairs")
    pairs = Question(phenomenon="planted").load_pairs()
    names = ("one", "many")
    renamed = relabelled(pairs, names, dict(zip(pairs.labels, names, strict=True)))
    renamed.save(folder / "renamed.jsonl")
    draw = random.Random(0)
    chance = tuple(dataclasses.replace(pair, label=draw.choice(pairs.labels)) for pair in pairs)
    dataclasses.replace(pairs, name="chance", pairs=chance).save(folder / "chance.jsonl")
    return parse_recipe(ATLAS.format(folder=folder), "cross.yaml")


@pytest.fixture(scope="session")
def atlas(atlas_recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Studied:
    return study(atlas_recipe, out=tmp_path_factory.mktemp("studies") / "cross")
