"""A small study that has run to its end; nobody writes to it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from small_study import tiny

from pivotal.jobs.study.job import study


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study") / "tiny"
    study(tiny(), out=path)
    return path


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Callable[[], Path]:
    return lambda: Path(shutil.copytree(finished, tmp_path / "tiny"))
