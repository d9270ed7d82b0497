"""A little real text for the tests of training, the sentences of the project's own agreement pairs, and a small job."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pivotal import load_phenomenon
from pivotal.lm.recipes import settings_of
from pivotal.lm.training import Trained, TrainingJob, train

SMALL = {"hidden": 16, "embedding": 16, "layers": 1, "batch": 16, "bptt": 10, "epochs": 2, "rate": 0.02}

Learn = Callable[..., list[Trained]]


@pytest.fixture(scope="session")
def sentences() -> list[str]:
    pairs = load_phenomenon("number-agreement")
    texts = sorted({f"{pair.prefix} {word} ." for pair in pairs for word in pair.words})
    random.Random(0).shuffle(texts)
    return texts


@pytest.fixture(scope="session")
def corpus(sentences: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "corpus.txt"
    path.write_text("\n".join(sentences[:800]) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def valid(sentences: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "valid.txt"
    path.write_text("\n".join(sentences[800:950]) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def learn(corpus: Path, valid: Path, tmp_path: Path) -> Learn:
    """Train a small model in a folder of the test; `given` are settings."""

    def call(
        out: str = "model", *, recipe: str = "fast", given: Any = None, watch: Any = None, **options: Any
    ) -> list[Trained]:
        settings = settings_of(recipe, {**SMALL, **(given or {})})
        return train(TrainingJob([corpus], tmp_path / out, settings, **{"valid": valid, **options}), watch)

    return call


def crash() -> None:
    raise RuntimeError("crashed")
