"""Searches side by side on the planted model, where the answer is known."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from tests.short_searches import short

from pivotal.errors import PivotalError
from pivotal.evidence.evaluation import evaluate
from pivotal.files import lock
from pivotal.jobs.compare import Comparison, ComparisonPlan, Contender, compare, contenders, sizes_of
from pivotal.jobs.find import find
from pivotal.jobs.run_folder import RunFolder
from pivotal.models.planted import plant
from pivotal.problem.prepare import model_of, problem_of
from pivotal.problem.problem import Problem
from pivotal.questions.question import Question
from pivotal.records.intervention import Intervention
from pivotal.records.serial import plain
from pivotal.report.comparison_tables import values_sentence
from pivotal.searches import SEARCHES
from pivotal.searches.base import Attempt, Discovery, Point, Progress
from pivotal.searches.choose_then_fit import Selection
from pivotal.searches.learned import LearnedMask
from pivotal.stopping import Interrupted

QUESTION = Question(model="planted", phenomenon="planted", test=81)
LEARNED = LearnedMask(updates=40, refit=8)


@dataclass(frozen=True)
class LastUnits(Selection):
    """Takes the last units there are: a search that is quick and finds nothing on purpose."""

    name: ClassVar[str] = "last"
    summary: ClassVar[str] = "the last units"
    seen: ClassVar[list[Problem]] = []
    budgets: ClassVar[list[int]] = []

    def _solve(self, problem: Problem, attempt: Attempt) -> Discovery:
        self.seen.append(problem)
        values = torch.zeros(attempt.runs, 2, len(problem.space))
        mask = torch.zeros_like(values, dtype=torch.bool)
        mask[..., -int(self.max_units) :] = True
        return self.conclude(problem, mask, values, attempt)

    def within(self, problem: Problem, runs: int, nodes: int) -> LastUnits:
        self.budgets.append(nodes)
        return replace(self, refit=self.refit + 1)


@dataclass(frozen=True)
class Forgetful(LastUnits):
    """Leaves out a size."""

    name: ClassVar[str] = "forgetful"

    def _frontier(self, problem: Problem, sizes: Sequence[int], attempt: Attempt) -> Iterator[Point]:
        yield from super()._frontier(problem, sizes[1:], attempt)


BOTH = (Contender("learned", LEARNED), Contender("last", LastUnits(refit=2)))
PLAN = ComparisonPlan(BOTH, (1, 3), runs=2, mode="both")


class Onlooker:
    """Remembers what it is told, and may stop the job once so many rows are there."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.said: list[str] = []
        self.phases: list[str] = []
        self._stop_after = stop_after

    def say(self, text: str) -> None:
        self.said.append(text)

    def progress(self, progress: Progress) -> None:
        self.phases.append(progress.phase)
        if self._stop_after is not None and sum(" flipped" in text for text in self.said) == self._stop_after:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    out = str(tmp_path_factory.mktemp("compare") / "c")
    return compare(QUESTION, PLAN, out=out, command="pivotal compare")


def without_times(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: without_times(value) for key, value in content.items() if key != "seconds"}
    return [without_times(item) for item in content] if isinstance(content, list) else content


def saved(folder: Path) -> Any:
    return without_times(json.loads((folder / "compare.json").read_text()))


def content(compared: Comparison) -> Any:
    """compare.json with its times."""
    return json.loads((compared.folder.path / "compare.json").read_text())


def keys(result: dict[str, Any]) -> list[tuple[str, str, int]]:
    return [(row["mode"], row["search"], row["size"]) for row in result["rows"]]


def test_a_row_for_every_mode_search_and_size(compared: Comparison) -> None:
    assert content(compared)["finished"]
    assert keys(content(compared)) == [
        (mode, search, size)
        for mode in ("converged", "equal")
        for search in ("learned", "last")
        for size in (1, 3)
    ]
    assert saved(compared.folder.path) == without_times(plain(compared.result))
    searches = content(compared)["searches"]
    assert searches["learned"]["updates"] == 40 and "max_units" not in searches["learned"]


def test_rows_tell_of_the_runs_and_of_the_planted_units(compared: Comparison) -> None:
    row = content(compared)["rows"][1]
    planted = [unit.number for unit in plant().units]
    assert [run["unit_numbers"] for run in row["runs"]] == [planted, planted]
    assert row["seeds"] == [run["seed"] for run in row["runs"]] == [0, 1]
    for row in content(compared)["rows"]:
        best = min(range(2), key=lambda r: row["runs"][r]["train_score"])
        for name in ("flip_accuracy", "units", "kl", "kl_after_edit"):
            values = [run[name] for run in row["runs"]]
            assert row[name] == {
                "mean": pytest.approx(statistics.mean(values)),
                "sd": pytest.approx(statistics.stdev(values)),
                "min": min(values),
                "max": max(values),
                "median": pytest.approx(statistics.median(values)),
                "best": values[best],
            }
        assert row["best"] == best
        assert row["forward_nodes"] > row["backward_nodes"] > 0
    nothing = content(compared)["rows"][3]["flip_accuracy"]["mean"]
    assert content(compared)["rows"][1]["flip_accuracy"]["mean"] == 1.0 > nothing


def test_interventions_are_kept_and_score_on_held_out_pairs_as_the_row_says(compared: Comparison) -> None:
    _, held_out = QUESTION.divide(QUESTION.load_pairs())
    test = problem_of(QUESTION, model_of(QUESTION), held_out)
    for row in content(compared)["rows"]:
        for r, run in enumerate(row["runs"]):
            kept = Intervention.load(compared.folder.path / row["interventions"] / str(r))
            scores = evaluate(kept, test)
            assert scores.flip_accuracy.value == pytest.approx(run["flip_accuracy"])
            assert scores.kl == pytest.approx(run["kl"], abs=1e-5)
            assert kept.scores["flip_accuracy"] == run["flip_accuracy"]


def test_searches_see_training_pairs_only(tmp_path: Path) -> None:
    LastUnits.seen.clear()
    compare(QUESTION, replace(PLAN, contenders=BOTH[1:]), out=str(tmp_path / "c"))
    train, held_out = (set(pairs) for pairs in QUESTION.divide(QUESTION.load_pairs()))
    assert len(LastUnits.seen) == 2, "the reference's equal rows are its own and not run again"
    for problem in LastUnits.seen:
        assert set(problem.pairs) == train and not set(problem.pairs) & held_out


def test_equal_budgets_are_what_learned_took_at_that_size(tmp_path: Path, compared: Comparison) -> None:
    rows = {key: row for key, row in zip(keys(content(compared)), content(compared)["rows"], strict=True)}
    for size in (1, 3):
        spent = rows["converged", "learned", size]
        nodes = spent["forward_nodes"] + spent["backward_nodes"]
        equal = rows["equal", "last", size]
        assert (equal["budget"], equal["changed"]) == (nodes, {"refit": 3})
        assert equal["forward_nodes"] > rows["converged", "last", size]["forward_nodes"]
        assert rows["equal", "learned", size] == {**spent, "mode": "equal", "budget": nodes, "changed": {}}
    assert content(compared)["reference"] == "learned"


def test_a_budget_of_ones_own(tmp_path: Path) -> None:
    LastUnits.budgets.clear()
    plan = ComparisonPlan(BOTH, (2,), runs=1, mode="equal", budget=50_000)
    result = content(compare(QUESTION, plan, out=str(tmp_path / "c")))
    assert keys(result) == [("equal", "learned", 2), ("equal", "last", 2)]
    assert [row["budget"] for row in result["rows"]] == [50_000, 50_000] and LastUnits.budgets == [50_000]
    assert result["reference"] is None
    assert result["rows"][0]["flip_accuracy"]["sd"] is None, "one run has no spread"


def test_the_equal_mode_alone_needs_the_reference_first(tmp_path: Path) -> None:
    plan = ComparisonPlan(BOTH[::-1], (1,), runs=1, mode="equal")
    result = content(compare(QUESTION, plan, out=str(tmp_path / "c")))
    assert keys(result) == [("converged", "learned", 1), ("equal", "last", 1), ("equal", "learned", 1)]


@pytest.mark.parametrize(
    ("searched", "rows"), [(0, 0), (1, 1), (3, 3), pytest.param(5, 7, id="two rows of the reference beside")]
)
@pytest.mark.slow
def test_stopped_after_any_row_it_goes_on_and_repeats_nothing(
    tmp_path: Path, compared: Comparison, searched: int, rows: int
) -> None:
    out = tmp_path / "c"
    with pytest.raises(Interrupted, match=rf"{rows} of 8 sets .*Resume with: pivotal compare"):
        compare(QUESTION, PLAN, out=str(out), command="pivotal compare", watch=Onlooker(searched))
    there = saved(out)["rows"] if rows else []
    looking_on = Onlooker()
    compare(QUESTION, PLAN, out=str(out), watch=looking_on)
    assert saved(out) == saved(compared.folder.path)
    assert saved(out)["rows"][: len(there)] == there
    for row in there:
        done = f"{row['search']}, {row['size']} unit{'s'[: row['size'] - 1]}" + (
            ", equal budget" if row["mode"] == "equal" else ""
        )
        assert not any(phase.split(":")[0] == done for phase in looking_on.phases)


@pytest.mark.slow
def test_another_seed_gives_another_result(compared: Comparison, tmp_path: Path) -> None:
    other = compare(replace(QUESTION, seed=7), PLAN, out=str(tmp_path / "c"))
    assert without_times(content(other)["rows"]) != without_times(content(compared)["rows"])


def test_folders_are_not_mixed_up(compared: Comparison, tmp_path: Path) -> None:
    out = str(compared.folder.path)
    before = saved(compared.folder.path)
    changed = replace(PLAN, contenders=(Contender("learned", replace(LEARNED, updates=41)), BOTH[1]))
    with pytest.raises(PivotalError, match=r"searches\.learned\.updates is 40 there and 41 here"):
        compare(QUESTION, changed, out=out)
    with pytest.raises(PivotalError, match="holds a comparison, not a run"):
        find(QUESTION, LEARNED, out=out)
    with pytest.raises(PivotalError, match="max_units is 65"):
        compare(QUESTION, replace(PLAN, sizes=(65,)), out=out, overwrite=True)
    with pytest.raises(PivotalError, match="Leave keep out"):
        compare(replace(QUESTION, keep="text"), PLAN, out=out, overwrite=True)
    assert saved(compared.folder.path) == before


def test_a_finished_comparison_is_read_and_not_run_again(compared: Comparison) -> None:
    looking_on = Onlooker()
    again = compare(QUESTION, PLAN, out=str(compared.folder.path), watch=looking_on)
    assert again.already and not compared.already
    assert plain(again.result) == plain(compared.result) and looking_on.phases == []


def test_overwrite_replaces_ours_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "c"
    plan = ComparisonPlan(BOTH[1:], (1,), runs=2)
    compare(QUESTION, plan, out=str(out))
    (out / "interventions" / "mine").mkdir()
    (out / "interventions" / "mine" / "notes.txt").write_text("keep")
    compare(QUESTION, replace(plan, sizes=(2,)), out=str(out), overwrite=True)
    assert sorted(p.name for p in (out / "interventions").iterdir()) == ["last-2", "mine"]
    assert (out / "interventions" / "mine" / "notes.txt").read_text() == "keep"


def test_two_processes_do_not_share_a_folder(tmp_path: Path) -> None:
    out = tmp_path / "c"
    with pytest.raises(Interrupted):
        compare(QUESTION, PLAN, out=str(out), watch=Onlooker(stop_after=0))
    with (out / "run.json").open() as file:
        lock(file, out)
        for overwrite in (False, True):
            with pytest.raises(PivotalError, match="Another process"):
                compare(QUESTION, PLAN, out=str(out), overwrite=overwrite)
    assert RunFolder.open(out).kind == "comparison"


def test_a_search_that_leaves_a_size_out_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(PivotalError, match="'forgetful' gave 3 for 1"):
        compare(
            QUESTION,
            ComparisonPlan((Contender("forgetful", Forgetful(refit=2)),), (1, 3)),
            out=str(tmp_path / "c"),
        )
    assert not (tmp_path / "c").exists()


def test_a_bound_on_kl_is_counted(tmp_path: Path) -> None:
    plan = ComparisonPlan((Contender("last", LastUnits(refit=2, max_kl=1e-9)),), (1,), runs=2)
    row = content(compare(QUESTION, plan, out=str(tmp_path / "c")))["rows"][0]
    kept = sum(run["kl"] <= 1.1e-9 for run in row["runs"])
    assert (row["max_kl"], row["kl_bound_kept"]) == (1e-9, kept)


@pytest.mark.slow
@pytest.mark.parametrize("name", SEARCHES.names())
def test_a_point_does_not_depend_on_the_other_sizes_asked_for(name: str) -> None:
    """What a comparison that goes on after a kill relies on."""
    search = short(name)
    problem = problem_of(QUESTION, model_of(QUESTION), QUESTION.load_pairs().sample(120))
    problem.measure_activations()  # as a comparison does before its first search
    problem.bounds()
    both = list(search.frontier(problem, [1, 2], runs=2, seed=3))
    (alone,) = search.frontier(problem, [2], runs=2, seed=3)
    assert [point.size for point in both] == [1, 2]
    assert both[1].found.interventions == alone.found.interventions
    assert both[1].found.train_score == alone.found.train_score
    assert (both[1].cost.forward, both[1].cost.backward) == (alone.cost.forward, alone.cost.backward)


# -- what a user writes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("1..4", (1, 2, 3, 4)),
        ("5", (5,)),
        ("1,3,5", (1, 3, 5)),
        ("5, 1..2, 2", (1, 2, 5)),
        ("4..2", (2, 3, 4)),
    ],
)
def test_sizes(text: str, sizes: tuple[int, ...]) -> None:
    assert sizes_of(text) == sizes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1-5", "written 1..10, 5 or 1,3,5, but '1-5'"),
        ("", "but ''"),
        ("1,,2", "but '1,,2'"),
        ("0.5", "whole numbers"),
        ("1...3", "two dots"),
        ("٣", "whole numbers"),
        ("0..3", "at least one unit, but 0 was asked for"),
        ("1..99999999999", "at most 1,000"),
    ],
)
def test_sizes_that_are_none(text: str, said: str) -> None:
    with pytest.raises(PivotalError) as error:
        sizes_of(text)
    assert said in str(error.value)


def test_presets_common_and_own_options() -> None:
    ours, paper = contenders(
        ["learned", "learned@paper"],
        common={"kl_weight": 0.5},
        options=["learned@paper.updates=7", "learned.kl-weight=0.2"],
    )
    assert (ours.label, paper.label) == ("learned", "learned@paper")
    assert (ours.search.kl_weight, ours.search.updates) == (0.2, LearnedMask().updates)  # type: ignore[attr-defined]
    assert (paper.search.kl_weight, paper.search.updates) == (0.5, 7)  # type: ignore[attr-defined]
    assert paper.search.objective == "ratio"  # type: ignore[attr-defined]
    assert paper.settings()["preset"] == "paper" and ours.settings()["preset"] is None
    assert [c.label for c in contenders([])] == SEARCHES.names()


@pytest.mark.parametrize(
    ("names", "options", "said"),
    [
        (["lerned"], [], "Did you mean 'learned'?"),
        (["learned@papr"], [], "Did you mean 'paper'?"),
        (["learned@"], [], "has no preset ''"),
        (["learned", "learned"], [], "listed twice"),
        (["learned", ""], [], "is empty"),
        (["learned"], ["updates=3"], "SEARCH.NAME=VALUE"),
        (["learned"], ["learned.updates"], "SEARCH.NAME=VALUE"),
        (["learned"], ["lerned.updates=3"], "not listed. Did you mean 'learned'?"),
        (["learned"], ["learned.max_units=3"], "Use --max-units"),
        (["learned"], ["learned.updats=3"], "Did you mean 'updates'?"),
        (["learned"], ["learned.updates=3", "learned.updates=4"], "given twice"),
    ],
)
def test_bad_contenders(names: list[str], options: list[str], said: str) -> None:
    with pytest.raises(PivotalError) as error:
        contenders(names, options=options)
    assert said in str(error.value)


def test_bad_plans() -> None:
    with pytest.raises(PivotalError, match="None of the searches listed"):
        contenders(["learned"], common={"beam_of_light": 1})
    for plan, said in (
        ({"contenders": ()}, "at least one search"),
        ({"contenders": BOTH[:1] * 2}, "compared once"),
        ({"sizes": ()}, "no number of units"),
        ({"sizes": (0, 1)}, "at least one unit"),
        ({"mode": "converged", "budget": 3}, "equal or both"),
        ({"budget": 0}, "at least one node"),
    ):
        with pytest.raises(PivotalError, match=said):
            replace(PLAN, **plan)  # type: ignore[arg-type]
    assert replace(PLAN, sizes=(3, 1, 3)).sizes == (1, 3)


def test_no_run_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(PivotalError, match="at least one run"):
        compare(QUESTION, replace(PLAN, runs=0), out=str(tmp_path / "c"))
    assert not (tmp_path / "c").exists()


@pytest.mark.slow
def test_a_preset_is_run_with_the_values_that_it_states(tmp_path: Path) -> None:
    """`learned@paper` finds in a comparison what `find --preset paper` finds, which means unbounded values."""
    options = ["learned@paper.updates=30"]
    both = tuple(contenders(["learned@paper", "random"], options=options))
    looking_on = Onlooker()
    done = compare(QUESTION, ComparisonPlan(both, (2,), runs=1), out=str(tmp_path / "c"), watch=looking_on)
    assert any("learned@paper uses unbounded values" in text for text in looking_on.said)
    assert "except in learned@paper (unbounded values)" in values_sentence(done.result)
    found = {
        row.search: Intervention.load(done.folder.path / row.interventions / "0") for row in done.result.rows
    }
    assert {name: one.found_with for name, one in found.items()} == {
        "learned@paper": "unbounded",
        "random": "natural",
    }
    search = replace(both[0].search, max_units=2)  # type: ignore[type-var]
    alone = find(
        replace(QUESTION, values="unbounded"), search, controls=0, evidence="none", out=str(tmp_path / "r")
    )
    assert alone.summary.runs[0].unit_labels == done.result.rows[0].runs[0].unit_labels
    assert alone.summary.flip_accuracy == done.result.rows[0].flip_accuracy.mean
    assert np.array_equal(alone.folder.intervention().values, found["learned@paper"].values)
    same = contenders(["learned@paper"], options=options, same_values=True)
    assert same[0].values is None
