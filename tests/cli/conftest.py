"""How the tests of verbs run a command. Figures are not drawn here."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.figures import empty_figures
from tests.finished_run import finished_run
from typer.testing import CliRunner

from pivotal.cli.main import app

COMPARE = (
    *("compare", "planted", "planted", "--searches", "learned,learned@paper", "--test", "81"),
    *("-o", "learned.updates=40", "-o", "learned.refit=8", "-o", "learned@paper.updates=20"),
)

Run = Callable[..., "Outcome"]


class Outcome:
    """What a command printed and how it ended; bad input never shows a traceback."""

    def __init__(self, arguments: tuple[str, ...]) -> None:
        result = CliRunner().invoke(app, list(arguments))
        self.code, self.out, self.err = result.exit_code, result.stdout, result.stderr
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert "Traceback" not in self.out + self.err

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def refused(self, *parts: str) -> None:
        assert self.code == 2, (self.code, self.out, self.err)
        assert self.out == ""
        # Usage errors are set in a box: compare the words, not the frame and the line breaks.
        said = " ".join(self.err.replace("│", " ").split())
        assert said.rstrip("╰╯─ ").endswith((".", "?", ")", ".”")), "an error is a sentence"
        for part in parts:
            assert part in said, said


@pytest.fixture(scope="module", autouse=True)
def no_figures() -> Iterator[None]:
    """Per module, because the tests of other folders in the same session draw real figures."""
    with empty_figures():
        yield


@pytest.fixture
def pivotal() -> Run:
    return lambda *arguments: Outcome(tuple(map(str, arguments)))


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shared by all workers: a command that locks the folder takes a copy, `own_run`."""
    return finished_run(tmp_path_factory, "run", "--runs", "2")


@pytest.fixture
def own_run(run_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run_folder, tmp_path / "a run", ignore=shutil.ignore_patterns(".*")))


@pytest.fixture(scope="session")
def single_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished_run(tmp_path_factory, "single", "--steps", "single", "--max-units", "3")


@pytest.fixture
def alone(run_folder: Path, tmp_path: Path) -> Path:
    """The intervention of the run by itself."""
    return Path(shutil.copytree(run_folder / "interventions" / "0", tmp_path / "units"))
