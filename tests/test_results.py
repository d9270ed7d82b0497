"""docs/results*.md are made from stored rows, and in step with them."""

import json
import re
import shutil
from pathlib import Path
from types import ModuleType

import pytest
from tests.paths import ROOT, loaded
from tests.processes import python
from tests.report.study_rows import runs

from pivotal import PivotalError
from pivotal.files import asset
from pivotal.jobs.study.cells import cells_of
from pivotal.jobs.study.recipe import read_recipe, shipped
from pivotal.records.serial import encode
from pivotal.records.study import read_results
from pivotal.report.tables import number, percent


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return loaded("results")


def test_the_pages_are_what_their_sources_make(script):
    made = script.pages()
    assert {"results.md", "results-paper.md", "results-searches.md"} <= {path.name for path in made}
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run: python scripts/results.py"


def test_the_known_units_are_those_of_the_atlas():
    made = loaded("known_units").text()
    assert asset("known_units.json").read_text(encoding="utf-8") == made, "run: python scripts/known_units.py"


def test_the_readme_has_the_figures_of_the_panel_and_of_the_paper():
    panel = map(json.loads, (ROOT / "docs/results/panel.jsonl").read_text(encoding="utf-8").splitlines())
    keys = ("phenomenon", "steps", "values", "objective", "max_units", "model")
    cells = {tuple(row[key] for key in keys): row for row in panel}
    names = {"number": "number-agreement", "gender": "gender-bias"}
    paper = {
        (one["beside"]["summary"]["question"], one["beside"]["summary"]["KL term"]): one
        for one in json.loads(asset("paper.json").read_text(encoding="utf-8"))["scores"]
        if "summary" in one["beside"]
    }
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| (\w+), (\w+) step \| (.+) \| (.+) \| (.+) \|$", readme, re.MULTILINE)
    assert len(table) == 4
    for name, steps, *ours, theirs in table:
        for values, shown in zip(("natural", "unbounded"), ours, strict=True):
            row = cells[names[name], steps, values, "flips", None, "wiki-lstm"]
            assert shown == f"{percent(row['flipped'][0])}, {row['units']}, {number(row['kl'], 2)}"
        one = paper[f"{name} {steps}", "with"]
        figures = (one[key][0] for key in ("flip_accuracy", "units", "kl"))
        assert theirs == "{}, {:.1f}, {:.3f}".format(percent(next(figures)), *figures)


def test_every_recipe_has_its_place(script):
    parts = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs/results/parts").glob("*.md"))
    for name in shipped():
        if name.startswith("atlas"):  # its results are a site
            continue
        assert len(re.findall(rf"^<!-- study: {name}( by .+)? -->$", parts, re.MULTILINE)) == 1, name


def study_of(folder: Path) -> str:
    """The study that a folder has results of: that of its name, but the atlas is that of the longer recipe."""
    return "atlas-blimp" if folder.name == "atlas" else folder.name


def test_stored_results_are_whole_and_lie_where_their_study_is_called():
    for path in (ROOT / "docs" / "results").glob("*/results.jsonl"):
        assert {row.study for row in read_results(path)} == {study_of(path.parent)}
        assert study_of(path.parent) in shipped()


def test_stored_rows_have_the_settings_of_their_recipes():
    """All settings that the recipe and the rows both have. A setting that only one of them has was added or dropped.
    The rows of the atlas are of `learned`, as its page says; an atlas that is begun today takes the default."""
    assert "Search: `learned`" in (ROOT / "docs" / "atlas-findings.md").read_text(encoding="utf-8")
    for path in (ROOT / "docs" / "results").glob("*/results.jsonl"):
        cells = {
            tuple(cell.label.items()): cell
            for cell in cells_of(read_recipe(shipped()[study_of(path.parent)]))
        }
        for row in read_results(path):
            cell = cells[tuple(row.cell.items())]
            search = "learned" if path.parent.name == "atlas" else cell.search.name
            asked = (search, cell.question.values, cell.question.split)
            assert (row.search, row.values, row.split) == asked, row.run
            if row.search == cell.search.name:
                for name in row.options.keys() & cell.options.keys():
                    assert row.options[name] == cell.options[name], (row.run, name)


def test_every_table_of_a_benchmark_stands_on_a_page(script):
    parts = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs/results/parts").glob("*.md"))
    assert sorted(re.findall(r"^<!-- table: (.+) -->$", parts, re.MULTILINE)) == sorted(script.TABLES)


def test_every_table_states_search_values_split_batch_and_machine(script):
    rows = read_results(ROOT / "docs/results/efficiency/results.jsonl")
    assert script.protocol("efficiency", rows) == (
        "`pivotal study efficiency`: 375 runs. Search: `learned` or `reinforce`. Values: unbounded or natural. "
        "Batch: 64 or 128 prefixes. Machine: NVIDIA H200."
    )


def test_a_study_by_an_axis_has_a_column_for_each_value(script):
    table = script.study("lexical", "held out")
    assert "| question | values | prefixes | words |" in table
    assert "| number single | natural | 75.6 ± 0.0 / 0.44 | 82.7 ± 0.3 / " in table
    with pytest.raises(PivotalError, match="no cell has that axis"):
        script.study("lexical", "units")


def test_the_time_to_a_quality_is_that_of_the_cheapest_set_that_has_it():
    peers = loaded("peers")
    seconds = {"update": 1.0, "update without KL": 0.5, "refit": 0.25, "refit without KL": 0.125}
    costs = [{"cost": kind, "loop": "careful", "seconds": [each]} for kind, each in seconds.items()]

    def point(seed: int, updates: int, refit: int, flips: float, kl: float) -> dict[str, object]:
        named = {"way": "mine", "seed": seed, "updates": updates, "refit": refit}
        return {**named, "flips": flips, "units": 4, "kl": kl}

    points = [
        point(0, 100, 0, 0.99, 1.2),  # too much KL
        point(0, 100, 60, 0.99, 0.9),
        point(0, 200, 0, 0.99, 0.9),
        point(1, 200, 0, 0.96, 0.9),  # too few flips
    ]
    assert peers.first_to_pass(points, 0.98, 1.0, costs, "careful") == [(115.0, 160)]
    assert peers.first_to_pass(points, 0.95, 1.0, costs, "careful") == [(115.0, 160), (200.0, 200)]
    ranked = {**point(0, 0, 20, 0.99, 0.9), "way": "gradient times activation"}
    assert peers.first_to_pass([ranked], 0.98, 1.0, costs, "careful") == [(7.0, 20)]
    searched = {"way": "pivotal", "seed": 0, "seconds": 30.0, "flips": 0.99, "units": 4, "kl": 1.0}
    assert peers.first_to_pass([searched], 0.98, 1.0, costs, "") == [(30.0, 0)]


@pytest.mark.parametrize("check", [[], ["--check"]])
def test_what_is_wrong_with_a_source_is_a_sentence(tmp_path, check):
    """As one meets it: the script itself, beside documents of which one names a study that there is not."""
    (tmp_path / "docs/results/parts").mkdir(parents=True)
    (tmp_path / "docs/results/parts/1.md").write_text("<!-- study: sumary -->\n")
    (tmp_path / "scripts").mkdir()
    for name in ("results_tables.py", "verdict_rates.py", "peers.py", "results.py"):
        copy = Path(shutil.copy(ROOT / "scripts" / name, tmp_path / "scripts"))
    ran = python(copy, *check)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("A part names the study 'sumary'") and ran.stderr.count("\n") == 1
    assert not (tmp_path / "docs/results.md").exists()


def test_a_study_with_results_shows_its_scores(script, tmp_path):
    (tmp_path / "results" / "parts").mkdir(parents=True)
    (tmp_path / "results" / "parts" / "one.md").write_text("# Results\n\n<!-- study: summary -->\n")
    assert "not measured yet" in script.pages(tmp_path)[tmp_path / "one.md"]
    (tmp_path / "results" / "summary").mkdir()
    rows = runs({"question": "number single", "KL term": "without", "values": "unbounded"}, [0.8, 0.9, 1.0])
    text = "".join(encode(one, indent=0) + "\n" for one in rows)
    (tmp_path / "results" / "summary" / "results.jsonl").write_text(text)
    made = script.pages(tmp_path)[tmp_path / "one.md"]
    assert "| number single | without | unbounded | 3 | 90.0 ± 10.0 | 88.0 ± 0.2 |" in made
    assert "not measured yet" not in made and "seconds" not in made
