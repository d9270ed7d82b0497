"""The argument `progress` of a search: a bar, a function, or nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import pivotal as pv
from pivotal.searches.progress import NotebookBar, Progress, bar_html

SEARCH = pv.LearnedMask(max_units=3, updates=20, refit=4)


@pytest.fixture(scope="module")
def problem() -> pv.Problem:
    return pv.Problem(pv.load_model("planted"), pv.load_phenomenon("planted").sample(100, seed=0))


def test_true_shows_a_bar_with_the_phases_on_stderr(
    problem: pv.Problem, capfd: pytest.CaptureFixture[str]
) -> None:
    shown = SEARCH.solve(problem, progress=True)
    out, err = capfd.readouterr()
    assert "20/20" in err and "flipped" in err and not out
    assert shown.interventions == SEARCH.solve(problem).interventions
    assert capfd.readouterr() == ("", "")


def test_false_and_none_are_silent_and_a_function_gets_every_report(
    problem: pv.Problem, capfd: pytest.CaptureFixture[str]
) -> None:
    reports: list[Progress] = []
    for progress in (False, None, reports.append):
        SEARCH.solve(problem, progress=progress)
    assert [r.update for r in reports if r.phase == reports[0].phase][-1] == 20
    assert capfd.readouterr() == ("", "")


def test_a_certificate_takes_the_same_argument(
    problem: pv.Problem, capfd: pytest.CaptureFixture[str]
) -> None:
    found = SEARCH.solve(problem)
    effort = pv.Effort(candidates=1, audit=1, sample=8, pairs="none", polish=1, finalists=1)
    pv.certify(found.best, problem, effort=effort, progress=True)
    assert "/" in capfd.readouterr().err


def test_the_bar_of_a_notebook_is_one_line_of_html() -> None:
    report = Progress("learn <1>", 3, 12, [0.5, 0.7], [4.0, float("nan")], [0.25])
    assert bar_html(report) == (
        '<div>learn &lt;1&gt; <progress value="3" max="12"></progress> '
        "3/12 loss 0.600  units 4.0  flipped 25.0%</div>"
    )
    assert 'max="1"' in bar_html(Progress("begin", 0, 0, [], [], []))


def test_a_notebook_gets_one_bar_that_is_redrawn() -> None:
    """With a real IPython, whose display is asked what it was given."""
    shell = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell
    capture = pytest.importorskip("IPython.utils.capture").capture_output
    shell.instance()
    try:
        with capture() as shown:
            report = NotebookBar()
            for update in (0, 5, 10):
                report.progress(Progress("learn", update, 10, [], [], []))
    finally:
        shell.clear_instance()
    assert [output.update for output in shown.outputs] == [False, True]
    assert 'value="10"' in shown.outputs[-1].data["text/html"]


def test_find_takes_the_same_argument(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    question = pv.Question(model="planted", phenomenon="planted", test=80)
    pv.find(question, SEARCH, controls=0, out=str(tmp_path / "run"), progress=True)
    assert "20/20" in capfd.readouterr().err
