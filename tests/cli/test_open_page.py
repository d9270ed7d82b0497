"""`pivotal open` hands the page to the browser of the user."""

from __future__ import annotations

import json
import shutil
import webbrowser
from pathlib import Path

import pytest
from tests.cli.conftest import Run


@pytest.fixture
def browser(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that a browser was asked to open."""
    asked: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: not asked.append(address))
    return asked


def test_the_page_of_a_run_is_opened(run_folder: Path, browser: list[str], pivotal: Run) -> None:
    said = pivotal("open", run_folder)
    assert said.code == 0 and said.out == f"Opened {run_folder / 'report.html'}\n"
    assert browser == [(run_folder / "report.html").as_uri()]
    assert json.loads(pivotal("open", run_folder, "--json").out) == {
        "report": str(run_folder / "report.html")
    }


def test_a_missing_page_is_written_first(
    run_folder: Path, tmp_path: Path, browser: list[str], pivotal: Run
) -> None:
    folder = Path(shutil.copytree(run_folder, tmp_path / "a run"))
    (folder / "report.html").unlink()
    assert pivotal("open", folder).code == 0
    assert (folder / "report.html").is_file() and browser[0].endswith("/a%20run/report.html")


def test_without_a_browser_the_file_is_named(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, pivotal: Run
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda address: False)
    pivotal("open", run_folder).refused("There is no browser that could be started here")


def test_a_folder_that_is_no_run(tmp_path: Path, browser: list[str], pivotal: Run) -> None:
    pivotal("open", tmp_path).refused("is not a run folder")
    assert browser == []
