"""Charts under a limit of the address space: they are drawn elsewhere, or left out, but never end the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pivotal.report import renderer
from pivotal.report.drawing import Figure
from pivotal.report.html import figure_of
from pivotal.report.renderer import NotDrawn, render
from pivotal.report.tables import Table

SPEC = {
    "data": {"values": [{"a": 1, "b": 2}]},
    "mark": "point",
    "encoding": {"x": {"field": "a", "type": "quantitative"}},
}

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (9 << 30, 9 << 30))
from pivotal.cli.main import main
main()
"""
FIND = ("find", "planted", "planted", "--updates", "20", "-o", "refit=3", "--test", "40", "--controls", "0")


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renderer, "limited", lambda: True)
    renderer._works.cache_clear()


@pytest.mark.slow
def test_a_process_of_its_own_draws_the_same(limit: None, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = render("svg", SPEC)
    monkeypatch.setattr(renderer, "limited", lambda: False)
    assert render("svg", SPEC) == elsewhere and elsewhere.startswith(b"<svg")


def test_a_renderer_that_dies_is_an_error_and_not_the_end(
    limit: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renderer, "_CHILD", "import os; os.abort()")
    with pytest.raises(NotDrawn, match=r"more address space.*ulimit -v"):
        render("svg", SPEC)


def test_a_chart_that_makes_no_sense_is_an_error() -> None:
    with pytest.raises(NotDrawn, match="cannot be drawn"):
        render("svg", {"mark": 3})


def test_a_page_without_the_figure_has_its_numbers() -> None:
    table = Table("Numbers", ("a",), (("1",),))
    made = figure_of(Figure("name", "Title", "Points.", "", table))
    assert ("could not be drawn" in made and "<svg" not in made and "<td" in made) or "<th" in made


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of the address space are those of Linux")
def test_a_limit_of_nine_gigabytes_costs_the_figures_and_not_the_run(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LIMITED, *FIND, "--out", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "summary.json").is_file() and not (tmp_path / "run" / "figures").exists()
    assert "could not be drawn" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
