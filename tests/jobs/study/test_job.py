"""A study runs what is missing and nothing else, whatever has happened to it before."""

import dataclasses
import json
import shutil

import pytest
from small_study import Said, lasting, rows_in, tiny
from tests.processes import locked_elsewhere

from pivotal import PivotalError, Question, RunFolder, study
from pivotal.jobs.study import work
from pivotal.jobs.study.job import dry_run
from pivotal.jobs.study.recipe import parse_recipe
from pivotal.models.planted import plant
from pivotal.records.study import StudyRow


def test_a_row_says_all_about_a_run(finished):
    rows = rows_in(finished)
    assert [(row.name, row.seed) for row in rows] == [
        (f"{model}, {steps}", seed)
        for model in ("planted", "planted:1")
        for steps in ("every", "single")
        for seed in (3, 4)
    ]
    row = rows[0]
    summary = RunFolder(finished / row.folder).summary()
    assert row.accuracy == summary.runs[0].flip_accuracy
    assert (row.forward_nodes, row.total_seconds) == (summary.forward_nodes, summary.seconds.total)
    assert row.batch == [3, 4] and row.split_seed == 3
    assert (row.model_fingerprint, row.device) == (plant().model.fingerprint(), "cpu")
    assert row.machine.endswith("1 used") and row.versions["torch"]
    intervention = RunFolder(finished / row.folder).intervention(0)
    assert [str(unit) for unit in row.found] == [str(unit) for unit in intervention.units]
    assert row.found[0].values["plural"] == pytest.approx(float(intervention.values[1, 0]))


@pytest.mark.slow
def test_more_seeds_run_the_new_ones_alone_on_the_same_split(copied):
    folder = copied()
    old = rows_in(folder)
    new = study(tiny(), out=folder, runs=3, only="planted, every").rows
    assert [row for row in new if row.seed < 5] == list(old)
    (added,) = (row for row in new if row.seed == 5)
    assert added.batch == [5] and added.folder.endswith("seeds-5-5")
    assert (added.pairs, added.clean_accuracy) == (old[0].pairs, old[0].clean_accuracy)


def test_the_runs_beside_it_change_a_run_by_no_more_than_rounding(finished, tmp_path):
    """Of a batch with the same first seed, which decides what all runs have in common."""
    (alone,) = study(tiny(), out=tmp_path / "s", runs=1, only="planted, every").rows
    beside = rows_in(finished)[0]
    assert (alone.batch, beside.batch) == ([3], [3, 4])
    assert [unit.index for unit in alone.found] == [unit.index for unit in beside.found]
    for one, other in zip(alone.found, beside.found, strict=True):
        assert one.values == pytest.approx(other.values, abs=1e-3)


def test_results_that_are_damaged_or_lost_are_made_again(copied):
    folder, said = copied(), Said()
    path = folder / "results.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"study": 3}')
    with pytest.raises(PivotalError, match=r"results.jsonl, line 9: .* makes lost rows again"):
        study(tiny(), out=folder)
    path.unlink()
    study(tiny(), out=folder, watch=said)
    shutil.rmtree(folder / "runs")  # the rows alone are enough
    study(folder / "recipe.yaml", out=folder, watch=said)
    assert path.read_bytes() == whole and said.cells == []


def test_labels_may_change_and_cells_may_go_and_come_back(copied, finished):
    folder, renamed = copied(), tiny(("[every, single]", "[{label: all the time, steps: every}]"))
    rows = study(renamed, out=folder, watch=(said := Said())).rows
    assert {row.name for row in rows} == {"planted, all the time", "planted:1, all the time"}
    assert study(tiny(), out=folder, watch=said).rows == rows_in(finished)
    assert said.cells == said.lines == []  # a cell that comes back finds its run folders
    shutil.rmtree(folder / "runs")
    with pytest.raises(PivotalError, match=r"run folders of 4 finished runs are not in .* would be lost"):
        study(renamed, out=folder)
    assert rows_in(folder) == rows_in(finished)


def test_a_plan_writes_nothing_and_estimates_from_finished_runs(copied, tmp_path):
    plan = dry_run(tiny(), out=tmp_path / "new")
    assert not (tmp_path / "new").exists() and plan.seconds is None
    assert [batch.seeds for batch in plan.batches] == [range(3, 5)] * 4
    assert plan.total() == "Done: 0 runs. Left: 8 runs in 4 batches. Nothing was run."
    folder = copied()
    plan = dry_run(tiny(), out=folder, runs=6)
    assert plan.seconds == pytest.approx(sum(2 * row.total_seconds for row in rows_in(folder)[::2]))
    assert not dry_run(tiny(), out=folder).batches


@pytest.mark.slow
def test_models_and_pairs_are_loaded_once_though_the_cells_are_apart(tmp_path, monkeypatch):
    loads: list[str] = []
    load, read = work.model_of, Question.load_pairs
    monkeypatch.setattr(work, "model_of", lambda *given: (loads.append(given[0].model), load(*given))[1])
    monkeypatch.setattr(Question, "load_pairs", lambda question: (loads.append("pairs"), read(question))[1])
    apart = tiny(
        (
            '  model: [planted, "planted:1"]\n  steps: [every, single]',
            '  steps: [every, single]\n  model: [planted, "planted:1"]',
        )
    )
    rows = study(apart, out=tmp_path / "s", runs=1, watch=(said := Said())).rows
    assert loads == ["pairs", "planted", "planted:1"]
    assert [row.name for row in rows[:2]] == ["every, planted", "every, planted:1"]
    assert said.cells == ["every, planted", "single, planted", "every, planted:1", "single, planted:1"]


def test_a_batch_that_was_begun_keeps_its_seeds(copied):
    folder = copied()
    row = rows_in(folder)[0]
    (folder / row.folder / "summary.json").unlink()
    (folder / "results.jsonl").unlink()
    (batch,) = dry_run(tiny(), out=folder, runs=4, only="planted, every").batches[:1]
    assert (batch.seeds, batch.folder) == (range(3, 5), row.folder)


@pytest.mark.slow
def test_a_cell_that_fails_is_recorded_and_the_others_go_on(tmp_path):
    said = Said()
    words = "words: [{label: its own, steps: every}, {label: others, phenomenon: gender-bias}]"
    bad = tiny(("steps: [every, single]", words))
    studied = study(bad, out=tmp_path / "s", watch=said, runs=1)
    assert [(row.name, row.status) for row in studied.rows] == [
        ("planted, its own", "done"),
        ("planted, others", "failed"),
        ("planted:1, its own", "done"),
        ("planted:1, others", "failed"),
    ]
    assert "planted cannot score any of the" in studied.failed[0].error and studied.failed[0].accuracy is None
    assert rows_in(tmp_path / "s") == studied.rows
    assert sum("failed" in line for line in said.standings) == 2
    again = Said()
    study(bad, out=tmp_path / "s", watch=again, runs=1)
    assert again.cells == ["planted, others", "planted:1, others"]


def changes(said: Said) -> list[str]:
    """What was said besides how well the model knows the held-out pairs."""
    return [line for line in said.lines if "Held-out pairs: " not in line]


@pytest.mark.slow
def test_pairs_that_change_between_runs(tmp_path):
    """Rows that do not belong together are said to be such, and finished runs get no evidence of other pairs."""
    pairs, path = Question(phenomenon="planted").load_pairs(), tmp_path / "pairs.jsonl"
    pairs.save(path)

    def run(controls: int, runs: int = 1) -> tuple[tuple[StudyRow, ...], list[str]]:
        recipe = tiny(("phenomenon: planted", f"phenomenon: {path}, controls: {controls}"))
        rows = study(
            recipe, out=tmp_path / "s", runs=runs, only="planted, every", watch=(said := Said())
        ).rows
        return rows, changes(said)

    ((row,), said) = run(controls=99)
    assert said == []
    dataclasses.replace(pairs, pairs=pairs.pairs[:-20]).save(path)
    rows, (note, stays) = run(controls=120)
    assert rows == (row,) and f"The pairs of {path} have changed since the first run" in note
    assert "Evidence is added to 1 run" in note and "holds another run: " in stays
    rows, _ = run(controls=99, runs=2)
    assert [(row.seed, row.status) for row in rows] == [(3, "done"), (4, "done")], rows[1].error


@pytest.mark.slow
def test_what_a_model_has_read_before_is_no_change_of_its_weights(tmp_path):
    """Nor is what it computes in, though fingerprints are of both."""
    word = plant().model.word(1)
    primed = tiny(("  steps: [every, single]", f"  priming: [none, {word}]\n  dtype: [none, float64]"))
    rows = study(primed, out=tmp_path / "s", runs=1, only="planted, *", watch=(said := Said())).rows
    assert len({row.model_fingerprint for row in rows}) > 1
    assert changes(said) == []


def test_a_batch_whose_ablation_is_missing_is_not_searched_again_in_smaller_ones(copied):
    asked = tiny(("max_units: 3}", "max_units: 3, ablation: true, at_once: 1}"))
    (batch,) = dry_run(asked, out=copied(), only="planted, every").batches
    assert batch.seeds == range(3, 5)


def test_what_failed_before_and_is_not_asked_now_is_no_failure_of_now(copied):
    """The same command would not try it again."""
    folder = copied()
    path = folder / "results.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    shutil.rmtree(folder / "runs")
    path.write_text("".join(json.dumps({**row, "status": "failed"}) + "\n" for row in rows[:2]))
    studied = study(tiny(), out=folder, only="planted:1, single")
    assert [row.status for row in studied.rows] == ["failed", "failed", "done", "done"]
    assert studied.failed == () and repr(studied) == f"Done: 2 runs, in {path}."


@pytest.mark.parametrize("ask", [study, dry_run])
def test_what_cannot_be_asked_is_said_before_anything_runs(ask, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bad = parse_recipe("""
name: bad
defaults: {phenomenon: planted, model: planted}
grid:
  what:
    - {label: fine, max_units: 3, sites: hidden.0, test: 81}
    - {label: many pairs, test: 100000}
    - {label: many pairs too, test: 100000, steps: single}
    - {label: no start, search: exchange, start: gredy}
    - {label: no model, model: plonted}
    - {label: no phenomenon, phenomenon: planed}
""")
    with pytest.raises(PivotalError) as error:
        ask(bad, out=tmp_path / "s")
    first, *slips = str(error.value).split("\n")
    assert first == "4 settings of the recipe cannot be used; nothing was run."
    for slip, (cell, reason) in zip(
        slips,
        (
            ("'many pairs' and 1 more", "1 to 1511 of the 1512 pairs"),
            ("'no start'", "there is no gredy/"),
            ("'no model'", "plonted"),
            ("'no phenomenon'", "Did you mean 'planted'?"),
        ),
        strict=True,
    ):
        assert slip.startswith(f"- cell {cell}: ") and reason in slip
    assert not (tmp_path / "s").exists()
    assert dry_run(bad, out=tmp_path / "s", only="fine").batches


def test_a_folder_holds_one_study(copied, tmp_path):
    folder = copied()
    with pytest.raises(PivotalError, match="holds the study 'tiny', not 'other'"):
        study(tiny(("name: tiny", "name: other")), out=folder)
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("hello")
    with pytest.raises(PivotalError, match=r"holds other files \(dear.txt\). Nothing was changed"):
        study(tiny(), out=tmp_path / "letters")
    assert [p.name for p in (tmp_path / "letters").iterdir()] == ["dear.txt"]


def test_a_second_process_in_the_folder_is_refused(copied):
    pytest.importorskip("fcntl")
    folder = copied()
    with (
        locked_elsewhere(folder),
        pytest.raises(PivotalError, match=r"Process \d+ is working on the study in"),
    ):
        study(tiny(), out=folder)
    study(tiny(), out=folder)


def test_single_unit_ablation_is_asked_of_the_units_found(copied):
    folder, said = copied(), Said()
    asked = tiny(("max_units: 3}", "max_units: 3, ablation: true}"))
    rows = study(asked, out=folder, only="planted, every", watch=said).rows
    assert said.cells == ["planted, every"]  # for the ablation; the search is not repeated
    assert lasting(rows)[0].accuracy == rows_in(folder)[0].accuracy
    known = {unit.index for unit in plant().units}
    found = [unit for row in rows if row.name == "planted, every" for unit in row.found]
    assert {unit.index for unit in found} & known
    assert all(unit.by_ablation == (unit.index in known) for unit in found)
    study(asked, out=folder, only="planted, every", watch=(again := Said()))
    assert again.cells == []
    stored = json.loads((folder / rows[0].folder / "ablation.json").read_text())
    assert stored["units"].keys() >= {f"{u.site}:{u.index}" for u in rows[0].found}
