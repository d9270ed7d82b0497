"""The argument `progress` of a search, and the displays of what a job reports."""

import pytest
from rich.progress import Progress as RichProgress

import pivotal
from pivotal.records.run import Progress
from pivotal.watch import Bars, Named, NotebookBar, bar_html, display

SEARCH = pivotal.searches.LearnedMask(max_units=3, updates=20, refit=4)


@pytest.fixture(scope="module")
def problem() -> pivotal.Problem:
    return pivotal.Problem(
        pivotal.load_model("planted"), pivotal.load_phenomenon("planted").sample(100, seed=0)
    )


def test_true_shows_the_phases_on_stderr(problem, capfd):
    shown = SEARCH.solve(problem, progress=True)
    out, err = capfd.readouterr()
    assert "/20  loss" in err and "flipped" in err and not out
    assert shown.interventions == SEARCH.solve(problem).interventions
    assert capfd.readouterr() == ("", "")


def test_false_and_none_are_silent_and_a_function_gets_every_report(problem, capfd):
    reports: list[Progress] = []
    for progress in (False, None, reports.append):
        SEARCH.solve(problem, progress=progress)
    assert [r.update for r in reports if r.phase == reports[0].phase][-1] == 20
    assert capfd.readouterr() == ("", "")


def test_the_bar_of_a_notebook_is_one_line_of_html():
    report = Progress("learn <1>", 3, 12, [0.5, 0.7], [4.0, float("nan")], [0.25])
    assert bar_html(report) == (
        '<div>learn &lt;1&gt; <progress value="3" max="12"></progress> '
        "3/12  loss 0.600  units 4.0  flipped 25.0%</div>"
    )
    assert 'max="1"' in bar_html(Progress("begin", 0, 0))


def test_a_notebook_gets_one_bar_that_is_redrawn():
    """With a real IPython, whose display is asked what it was given."""
    shell = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell
    capture = pytest.importorskip("IPython.utils.capture").capture_output
    shell.instance()
    try:
        with capture() as shown:
            report = NotebookBar()
            for update in (0, 5, 10):
                report.progress(Progress("learn", update, 10))
    finally:
        shell.clear_instance()
    assert [output.update for output in shown.outputs] == [False, True]
    assert 'value="10"' in shown.outputs[-1].data["text/html"]


def test_lines_say_when_a_phase_begins_then_every_few_seconds_and_how_long_it_took(monkeypatch, capsys):
    now = 0.0
    monkeypatch.setattr("pivotal.watch.time.monotonic", lambda: now)
    reports = (("exchange", 0, 0.0), ("exchange", 100, 1.0), ("exchange", 600, 6.0), ("refit", 0, 6.1))
    with display() as shown:
        for phase, update, now in reports:  # noqa: B007
            Named("cell", shown).progress(Progress(phase, update, 1000, loss=[0.5]))
    assert capsys.readouterr().err.splitlines() == [
        "cell: exchange 0 of at most 1,000  loss 0.500",
        "cell: exchange 600 of at most 1,000  loss 0.500  at most 4 s left",
        "cell: exchange took 6 s",
        "cell: refit 0/1,000  loss 0.500",
    ]


def test_a_new_phase_completes_the_bar_of_the_one_before():
    bars = RichProgress(disable=True)
    shown = Bars(bars)
    for phase, update, updates in (("count [red]", 5, 0), ("learn", 3, 10), ("refit", 0, 4)):
        shown.progress(Progress(phase, update, updates, extra={"perplexity": [8.25]}))
    assert [(task.completed, task.total) for task in bars.tasks] == [(1, 1), (10, 10), (0, 4)]
    assert bars.tasks[1].fields["report"] == "3/10  perplexity 8.2"
