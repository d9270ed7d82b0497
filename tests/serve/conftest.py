"""One small run on the planted model, and one server that shows it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.serve.asking import Client

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from pivotal.jobs.find import find
from pivotal.questions.question import Question
from pivotal.searches.learned import LearnedMask
from pivotal.serve.server import LiveServer


@pytest.fixture(scope="session")
def planted_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("serve") / "runs" / "planted"
    search = LearnedMask(max_units=3.0, updates=40, refit=8)
    question = Question("planted", "planted", test=81)
    found = find(question, search, runs=2, controls=0, evidence="none", out=str(out), command="pivotal find")
    found.folder.report.write_text("<!doctype html>\n<title>A report</title>\n", encoding="utf-8")
    return out


@pytest.fixture(scope="module")
def client(planted_run: Path) -> Iterator[Client]:
    server = LiveServer([str(planted_run)])
    thread = threading.Thread(target=server.run)
    thread.start()
    yield Client(server.address)
    server.stop()
    thread.join(120)
    assert not thread.is_alive()
