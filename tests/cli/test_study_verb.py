"""`pivotal study`: exit codes and what is printed."""

import json
from pathlib import Path

import pytest

from pivotal.records.study import read_results

RECIPE = """\
name: verb
runs: 1
defaults: {phenomenon: planted, model: planted, test: 81, updates: 10, refit: 2}
grid:
  units: [{max_units: 3}, {max_units: 2}]
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "verb.yaml"
    path.write_text(RECIPE)
    return path


def test_a_study_from_plan_to_end(pivotal, recipe, tmp_path):
    out = tmp_path / "out"
    planned = pivotal("study", recipe, "--out", out, "--dry-run")
    assert planned.code == 0 and not out.exists()
    assert "Left: 2 runs in 2 batches" in planned.out and "Nothing was run" in planned.out
    cells = pivotal("study", recipe, "--out", out, "--dry-run", "--json").json["cells"]
    assert [cell["cell"] for cell in cells] == ["3", "2"]
    assert all((cell["done"], cell["seeds_left"]) == (0, [0]) for cell in cells)
    first = pivotal("study", recipe, "--out", out, "--only", "3")
    assert (first.code, first.out) == (0, f"Done: 1 run, in {out / 'results.jsonl'}.\n")
    assert "3: 1 of 1 done" in first.err
    second = pivotal("study", recipe, "--out", out, "--quiet", "--cpus", 1)
    assert (second.code, second.err) == (0, "")
    assert [row.name for row in read_results(out / "results.jsonl")] == ["3", "2"]
    again = pivotal("study", recipe, "--out", out, "--json").json
    assert again["results"] == str(out / "results.jsonl") and again["failed"] == []
    assert again["rows"] == [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert "Everything is done (2 runs)" in pivotal("study", recipe, "--out", out, "--dry-run").out


def test_failed_runs_are_told_by_the_exit_code(pivotal, recipe, tmp_path):
    recipe.write_text(RECIPE.replace("phenomenon: planted", "phenomenon: gender-bias"))
    outcome = pivotal("study", recipe, "--out", tmp_path / "out", "--json")
    assert outcome.code == 1
    assert [run["cell"] for run in outcome.json["failed"]] == ["3", "2"]
    outcome = pivotal("study", recipe, "--out", tmp_path / "out")
    assert outcome.code == 1
    assert "Done: 0 runs" in outcome.out and "Failed: 2 runs; the same command tries again" in outcome.out
    assert "planted cannot score any of the" in outcome.out


def test_bad_recipes_are_sentences(pivotal, recipe, tmp_path):
    out = tmp_path / "out"
    pivotal("study", tmp_path / "none.yaml").refused("There is no recipe")
    pivotal("atlas", "smal").refused("no recipe smal, by file or name. Did you mean 'small'?")
    pivotal("study", recipe, "--seeds", 0).refused("runs must be a whole number, 1 to 10,000")
    for more in ((), ("--dry-run",)):
        pivotal("study", recipe, "--out", out, "--device", "abacus", *more).refused("'abacus' is not")
        pivotal("study", recipe, "--out", out, "--gpus", 2, *more).refused("--gpus is for Ray")
    recipe.write_text(RECIPE.replace("max_units: 2", "updates: 0"))
    pivotal("study", recipe, "--out", out).refused(
        "line 5, column", "(cell '0')", "updates must be 1 or more"
    )
    assert not out.exists()


def test_two_folders_are_merged(pivotal, recipe, tmp_path):
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder, cell in zip(folders, "32", strict=True):
        assert pivotal("study", recipe, "--out", folder, "--only", cell, "-q").code == 0
    out = tmp_path / "out"
    merged = pivotal("study", recipe, "--merge", folders[0], "--out", out).out
    assert "Copied: 1 " in merged and "has 1 of the 2 runs of the recipe." in merged
    both = ("--merge", folders[0], "--merge", folders[1], "--out", out)
    done = pivotal("study", recipe, *both, "--light", "--json").json
    assert (done["taken"], done["finished"], done["runs"]) == (1, 2, 2)
    assert "Everything is done (2 runs)" in pivotal("study", recipe, "--out", out, "--dry-run").out
    pivotal("study", recipe, "--merge", tmp_path / "none", "--out", out).refused("none has no study.json")
    pivotal("study", recipe, "--light").refused("--light applies to the folders of --merge")
    pivotal("study", recipe, *both, "--dry-run", "--seeds", 2).refused("Leave --seeds and --dry-run out")


def test_pages_that_were_written_show_new_rows(pivotal, recipe, tmp_path):
    out, folder = ("--out", tmp_path / "out"), tmp_path / "out"
    recipe.write_text(RECIPE.replace("{max_units: 3}", "{max_units: 1}"))
    pivotal("atlas", recipe, *out, "--only", "1")
    pivotal("show", folder, "--page")
    site = (folder / "site" / "index.html").read_text()
    pivotal("study", recipe, *out)
    assert "2 runs of 2 cells" in (folder / "report.html").read_text()
    assert (folder / "site" / "index.html").read_text() != site
    pivotal("atlas", recipe, *out, "--seeds", "2")
    assert "4 runs of 2 cells" in (folder / "report.html").read_text()
