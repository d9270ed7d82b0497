"""docs/results.md is made from stored results, and in step with them."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest
from tests.paths import ROOT, loaded
from tests.report.study_rows import runs

from pivotal.jobs.study.cells import cells_of
from pivotal.jobs.study.recipe import read_recipe, shipped
from pivotal.records.serial import encode
from pivotal.records.study import read_results
from pivotal.report.study_tables import study_tables
from pivotal.report.tables import interval, number, percent


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return loaded("results")


def test_the_page_is_what_its_sources_make(script: ModuleType) -> None:
    written = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert written == script.page(), "run: python scripts/results.py"


def test_every_recipe_has_its_place(script: ModuleType) -> None:
    parts = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs/results/parts").glob("*.md"))
    for name in shipped():
        if name.startswith("atlas"):  # its results are a site
            continue
        assert parts.count(f"<!-- study: {name} -->") == 1, name


def study_of(folder: Path) -> str:
    """The study that a folder has results of: that of its name, but the atlas is that of the longer recipe."""
    return "atlas-blimp" if folder.name == "atlas" else folder.name


def test_stored_results_are_whole_and_lie_where_their_study_is_called() -> None:
    for path in (ROOT / "docs" / "results").glob("*/results.jsonl"):
        assert {row.study for row in read_results(path)} == {study_of(path.parent)}
        assert study_of(path.parent) in shipped()


def test_stored_rows_have_the_keys_of_their_recipes() -> None:
    for path in (ROOT / "docs" / "results").glob("*/results.jsonl"):
        cells = {cell.key for cell in cells_of(read_recipe(shipped()[study_of(path.parent)]))}
        assert {row.key for row in read_results(path)} <= cells, path.parent.name


def test_the_tables_of_blimp_are_those_of_their_rows() -> None:
    part = (ROOT / "docs" / "results" / "parts" / "23-blimp.md").read_text(encoding="utf-8")
    tables = part.partition("### Transfer")[0].split("**SmolLM2-135M.**")
    rows = [json.loads(line) for line in (ROOT / "docs" / "results" / "blimp.jsonl").read_text().splitlines()]
    for model, table in zip(("wiki-lstm", "smollm2-135m"), tables, strict=True):
        ours = [row for row in rows if row["model"] == model]
        lines = {line.split(" | ")[0]: line for line in table.split("\n") if line.startswith("| ")}
        assert len(ours) == len({row["paradigm"] for row in ours}) == 20 == len(lines) - 1
        for row in ours:
            cells = [f"{row['asked']:,} of {row['pairs']:,}", percent(row["accuracy"])]
            if "flipped" in row:
                flipped = f"{percent(row['flipped'])} ({interval(*row['interval'])})"
                cells += [flipped, str(row["units"]), number(row["kl"], 2)]
            else:
                cells += ["", "", ""]
            cells.append(row["verdict"] or "not finished")
            assert f"| {' | '.join(cells)} |" in lines[f"| {row['paradigm']}"], row["paradigm"]


def test_tables_of_benchmarks_are_made_from_their_rows() -> None:
    """The tables of the panel and of --keep in the page are what the benchmarks make of the stored rows."""
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    rows = ROOT / "docs" / "results"
    for name, file in (("panel", "panel"), ("keep", "keep"), ("keep", "keep_smollm2")):
        benchmark = loaded(name, "benchmarks")
        made = benchmark.markdown(benchmark.stored(rows / f"{file}.jsonl"))
        assert made.strip() in page, file


def test_the_table_of_both_searches_is_made_from_their_rows() -> None:
    """Half the work: ten seeds of the search before and of today's, on the same held-out pairs."""
    page, stored = (ROOT / "docs" / "results.md").read_text(encoding="utf-8"), ROOT / "docs" / "results"
    before, now = (read_results(stored / name) for name in ("former_search.jsonl", "units/results.jsonl"))
    assert {row.data_fingerprint for row in before} == {row.data_fingerprint for row in now}
    for search, rows in (("before", before), ("now", now)):
        scores, *_ = study_tables(read_recipe("units"), rows)
        assert len(scores.rows) == 8
        for question, values, count, *figures, _, nodes in scores.rows:
            assert f"| {' | '.join([question, values, search, count, *figures, nodes])} |" in page


def test_the_tables_of_peers_are_made_from_their_rows() -> None:
    page, rows = (ROOT / "docs" / "results.md").read_text(encoding="utf-8"), ROOT / "docs" / "results"
    peers = loaded("peers")
    timed, quality = peers.rows_of(rows / "peers.jsonl"), peers.rows_of(rows / "quality.jsonl")
    assert peers.table([row for row in timed if not peers.applies(row)]) in page
    assert peers.table([row for row in timed if peers.applies(row)]) in page
    for values in {row["values"] for row in quality if "values" in row}:
        assert peers.quality_table(quality, values) in page


def test_a_study_with_results_shows_its_tables(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "results" / "parts").mkdir(parents=True)
    (tmp_path / "results" / "parts" / "1.md").write_text("# Results\n\n<!-- study: summary -->\n")
    assert "not measured yet" in script.page(tmp_path)
    (tmp_path / "results" / "summary").mkdir()
    rows = runs({"question": "number single", "KL term": "without", "values": "unbounded"}, [0.8, 0.9, 1.0])
    text = "".join(encode(one, indent=0) + "\n" for one in rows)
    (tmp_path / "results" / "summary" / "results.jsonl").write_text(text)
    made = script.page(tmp_path)
    assert (
        "| number single | without | unbounded | 3 | 90.0 ± 10.0 | 88.0 ± 0.2 |" in made
        and "not measured yet" not in made
    )
