"""One server that shows the run of the planted model."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.finished_run import finished_run
from tests.serve.asking import Client, served

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from pivotal.serve.server import LiveServer


@pytest.fixture(scope="session")
def planted_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished_run(tmp_path_factory, "run", "--runs", "2")


@pytest.fixture(scope="module")
def client(planted_run: Path) -> Iterator[Client]:
    with served(LiveServer([str(planted_run)])) as made:
        yield made
