"""A little real text for the tests of training: the sentences of the project's own agreement pairs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pivotal.questions.phenomena import load_phenomenon


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
