"""A study can check what its models know before it searches anything, and go on from there."""

import json
import re

import pytest
from small_study import Said, lasting, tiny
from typer.testing import CliRunner

from pivotal import PivotalError, study
from pivotal.cli.main import app
from pivotal.jobs.study.job import Studied, dry_run
from pivotal.jobs.study.merge import merge
from pivotal.jobs.study.recipe import Recipe, parse_recipe
from pivotal.records.study import KNOWN, UNKNOWN, StudyRow

TEXT = """\
name: checked
resources: {cpus: 1}
defaults: {model: planted, steps: every, search: attribution, max_units: 2, evidence: none, controls: 0, known: true}
grid: {phenomenon: [planted, continent]}
"""


@pytest.fixture
def recipe() -> Recipe:
    return parse_recipe(TEXT, "checked.yaml")


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Studied:
    """The same study without a check."""
    return study(parse_recipe(TEXT, "checked.yaml"), out=tmp_path_factory.mktemp("studies") / "searched")


def by_name(rows: tuple[StudyRow, ...]) -> dict[str, StudyRow]:
    return {row.name: row for row in rows}


def test_a_check_says_what_is_known_and_searches_nothing(recipe, searched, tmp_path):
    checked = study(recipe, out=tmp_path / "study", check=True)
    rows = by_name(checked.rows)
    assert {name: row.status for name, row in rows.items()} == {"planted": KNOWN, "continent": UNKNOWN}
    assert rows["planted"].clean_accuracy == by_name(searched.rows)["planted"].clean_accuracy
    assert rows["planted"].units is None and rows["planted"].folder is None
    assert not (tmp_path / "study" / "runs").exists()
    assert "Done: 0 runs" in repr(checked)
    assert "To be searched: 1 cell whose model knows it." in repr(checked)


def test_the_study_goes_on_from_its_check(recipe, searched, tmp_path):
    out, again, then = tmp_path / "study", Said(), Said()
    study(recipe, out=out, check=True)
    study(recipe, out=out, check=True, watch=again)
    assert again.cells == again.standings == [], "nothing is checked twice"
    assert len(dry_run(recipe, out=out).settled) == 1, "a check is no search"
    done = study(recipe, out=out, watch=then)
    assert then.cells == ["planted"] and "1 of 1 done" in then.standings[0]
    assert lasting(done.rows) == lasting(searched.rows)
    assert study(recipe, out=out, check=True).rows == done.rows, "a check keeps the searches"


def test_checks_merge_with_searches_in_any_order(recipe, searched, tmp_path):
    checked = study(recipe, out=tmp_path / "checked", check=True).folder
    first = merge(recipe, [checked], out=tmp_path / "first")
    assert [row.status for row in first.rows] == [KNOWN, UNKNOWN]
    assert (first.taken, first.finished, first.runs) == (2, 1, 2)
    later = merge(recipe, [searched.folder], out=tmp_path / "first")
    assert later.rows == searched.rows and later.finished == 2
    assert merge(recipe, [searched.folder, checked], out=tmp_path / "last").rows == searched.rows


def test_a_check_needs_cells_that_ask_what_is_known(tmp_path):
    with pytest.raises(PivotalError, match="but 'planted, every' lacks it"):
        study(tiny(), out=tmp_path / "study", check=True)
    assert not (tmp_path / "study").exists()


def test_the_verb_tells_and_shows_what_is_known(tmp_path):
    path = tmp_path / "checked.yaml"
    path.write_text(TEXT)
    given = ["atlas", str(path), "--check", "--out", str(tmp_path / "study"), "-q"]
    said = CliRunner().invoke(app, given)
    assert said.exit_code == 0, said.output
    assert "not searched" in said.output and "To be searched: 1 cell" in said.output
    told = json.loads(CliRunner().invoke(app, [*given, "--json"]).stdout)
    assert [row["status"] for row in told["rows"]] == [KNOWN, UNKNOWN]
    site = tmp_path / "study" / "site"
    assert re.search(r"not searched<small>[\d.]+% right</small>", (site / "index.html").read_text())
    page = (site / "phenomena" / "planted.html").read_text()
    assert "A search has not been run yet." in page
