"""One look at the page of a run, for the quick tests. The other files of this folder look at everything."""

from tests.finished_run import finished_run


def test_the_page_of_a_run_is_accessible_and_quiet(opened, tmp_path_factory):
    seen = opened(finished_run(tmp_path_factory, "run", "--runs", "2") / "report.html")
    assert seen.violations() == []
    assert seen.complaints == [] and seen.requests == []
