"""The report of a study is made from its folder alone."""

from pathlib import Path

import pytest
from tests.report.study_rows import row, runs, saved

from pivotal import PivotalError
from pivotal.report.study import StudyFolder, write_study

CELL = {"question": "number single", "KL term": "without", "values": "unbounded"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """As the study `summary` leaves it after its first cell, and a failed run of the second."""
    failed = row({**CELL, "KL term": "with"}, status="failed", error="<no memory> & no disk", accuracy=None)
    rows = [failed, *runs(CELL, [0.8, 0.9, 1.0])]
    return saved(tmp_path, rows, command="pivotal study summary", started="today")


def test_page_and_tables(folder, check_page):
    page = write_study(folder).read_text(encoding="utf-8")
    check_page(page)
    assert "90.0 ± 10.0" in page and "88.0 ± 0.2" in page and "pivotal study summary" in page
    assert "&lt;no memory&gt; &amp; no disk" in page
    assert page.count("<figure ") == 1
    assert (folder / "figures" / "by-cell.svg").read_text(encoding="utf-8").strip() in page
    assert "The most flips are 100% (number single, without, unbounded), the fewest 80.0%" in page
    assert "90.0 ± 10.0" in (folder / "tables.md").read_text(encoding="utf-8")
    assert r"90.0 $\pm$ 10.0" in (folder / "tables.tex").read_text(encoding="utf-8")
    lines = (folder / "tables.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 5 and lines[1].startswith(
        "number single,without"
    )  # the recipe's order, not the file's


def test_a_run_whose_kl_is_no_number_does_not_cost_the_report(folder):
    path = folder / "results.jsonl"
    first, second, *others = path.read_text().splitlines(keepends=True)
    path.write_text("".join([first, second.replace('"kl": 0.5', '"kl": null'), *others]))
    page = write_study(folder).read_text(encoding="utf-8")
    assert "<td class=n>80.0%</td><td class=n>–</td>" in page and "<svg" in page


def test_before_any_run_is_done(folder):
    (folder / "results.jsonl").unlink()
    assert "No run has finished yet." in write_study(folder).read_text(encoding="utf-8")
    assert not (folder / "figures").exists()


def test_another_folder_is_refused(folder, tmp_path_factory):
    with pytest.raises(PivotalError, match="not the folder of a study"):
        StudyFolder.open(tmp_path_factory.mktemp("empty"))
    (folder / "study.json").write_text('{"format": "pivotal-study-0"}')
    with pytest.raises(PivotalError, match="format cannot be 'pivotal-study-0'"):
        StudyFolder.open(folder)
