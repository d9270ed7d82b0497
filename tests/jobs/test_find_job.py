"""The whole job on the planted model, where the answer is known."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.onlooker import Onlooker
from tests.paths import ROOT

import pivotal
from pivotal import Finding, Intervention, PivotalError, Question, RunFolder
from pivotal.jobs.find import find
from pivotal.jobs.preparation import machine
from pivotal.models.planted import plant
from pivotal.records.serial import plain
from pivotal.records.summary import Rejections
from pivotal.searches import Attribution, LearnedMask
from pivotal.stopping import Interrupted

QUESTION = Question(model="planted", phenomenon="planted", test=81)
SEARCH = LearnedMask(max_units=3.0, updates=60, refit=10)


@pytest.fixture(scope="module")
def finding(tmp_path_factory: pytest.TempPathFactory) -> Finding:
    return find(
        QUESTION, SEARCH, runs=3, out=str(tmp_path_factory.mktemp("run") / "r"), command="pivotal find"
    )


def without_times(folder: Path) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    assert set(summary.pop("seconds")) == {"load", "search", "evaluate", "total"}
    return summary


def test_the_planted_units_are_found_and_summed_up(finding):
    summary, planted = finding.summary, plant()
    names = [str(unit) for unit in planted.units]
    assert summary.flip_accuracy == 1.0
    assert summary.units == 3
    assert [list(run.unit_labels) for run in summary.runs] == [names] * 3
    assert [run.seed for run in summary.runs] == [0, 1, 2]
    assert summary.pairs.test == 81
    assert summary.clean_accuracy == 1.0
    assert summary.rejected == Rejections(total=0, reasons={})
    assert summary.forward_nodes > summary.backward_nodes > 0
    assert all(found.share == 1 for found in summary.prevalence.values())
    assert summary.controls.p_value == 1 / 100
    run = summary.runs[0]
    assert set(run.values) == {"singular", "plural"} and len(run.values["plural"]) == 3
    assert {one.unit for one in run.drop_one} == set(run.unit_labels)
    assert set(run.by_direction) == {"singular", "plural"}
    assert set(run.by_group) == {"class 0", "class 1", "class 2"}


def test_the_folder_is_whole(finding):
    path = finding.folder.path
    beside = {"traces.json", "units.json", "interventions"}
    assert {p.name for p in path.iterdir()} == {"run.json", "history.jsonl", "summary.json"} | beside
    assert json.loads((path / "summary.json").read_text()) == plain(finding.summary)
    run = RunFolder(path)
    assert run.settings["search"]["max_units"] == 3
    assert run.info.command == "pivotal find"
    best = run.intervention()
    assert best == Intervention.load(path / "interventions" / str(finding.summary.best))
    assert best.scores["flip_accuracy"] == 1.0
    assert Question.of(run.settings) == QUESTION
    phases = [row.phase for row in run.history()]
    assert phases[0] == "learn" and phases[-1] == "final"


@pytest.mark.parametrize("name", ["run.json", "summary.json", "traces.json", "units.json", "history.jsonl"])
def test_files_fit_their_published_schemas(finding, name):
    from jsonschema import Draft202012Validator

    schema = json.loads((ROOT / "docs/schemas" / f"{name.partition('.')[0]}.json").read_text())
    text = (finding.folder.path / name).read_text(encoding="utf-8")
    for content in text.splitlines() if name.endswith("l") else [text]:
        Draft202012Validator(schema).validate(json.loads(content))


def test_what_became_of_the_held_out_pairs_is_kept(finding):
    summary, traces = finding.summary, finding.folder.traces()
    assert traces.run == summary.best and traces.held_out == 81
    assert [outcome.pair for outcome in traces.pairs] == list(range(81))
    best = summary.best_run
    assert sum(outcome.flipped for outcome in traces.pairs) / 81 == best.flip_accuracy
    assert sum(outcome.kl for outcome in traces.pairs) / 81 == pytest.approx(best.kl, rel=1e-3)
    assert traces.frame.units == best.unit_labels
    assert {(t.group, t.direction) for t in traces.traces} == {(p.group, p.direction) for p in traces.pairs}
    for found in traces.traces:
        outcome = traces.pairs[found.pair]
        assert (found.prefix, found.words, found.flipped) == (outcome.prefix, outcome.words, outcome.flipped)


@pytest.mark.usefixtures("hangups")
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_saves_and_the_same_job_resumes_to_the_same_end(finding, tmp_path, signum):
    before = signal.getsignal(signum)

    out, stop = tmp_path / "r", Onlooker(("learn", 20), lambda: os.kill(os.getpid(), signum))
    said = r"checkpoint is saved in .*the current interventions under.*Resume with: pivotal find"
    with pytest.raises(Interrupted, match=said):
        find(QUESTION, SEARCH, runs=3, out=str(out), command="pivotal find", watch=stop)
    assert signal.getsignal(signum) is before
    assert RunFolder(out).runs_saved() == 3
    assert not (out / "summary.json").exists()

    looking_on = Onlooker()
    find(QUESTION, SEARCH, runs=3, out=str(out), watch=looking_on)
    assert looking_on.seen[0].update > 20, "it went on and did not begin again"
    assert any(text.startswith("Resuming") for text in looking_on.said)
    assert without_times(out) == without_times(finding.folder.path)
    assert RunFolder(out).history() == finding.folder.history()


def test_a_run_killed_while_scoring_does_not_search_again(finding, tmp_path, monkeypatch):
    def killed(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pivotal.jobs.find.summarise", killed)
        with pytest.raises(Interrupted):
            find(QUESTION, SEARCH, runs=3, out=str(tmp_path / "r"))
    looking_on = Onlooker()
    find(QUESTION, SEARCH, runs=3, out=str(tmp_path / "r"), watch=looking_on)
    assert {step.phase for step in looking_on.seen} == {"scoring", "checks"}
    assert without_times(tmp_path / "r") == without_times(finding.folder.path)


def test_a_run_that_is_stopped_before_its_search_says_what_it_left(tmp_path, monkeypatch):
    def stopped(_: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("pivotal.problem.problem.Problem.measure_activations", stopped)
    said = r"before there was a checkpoint in .*Start again with: the same call"
    with pytest.raises(Interrupted, match=said):
        find(QUESTION, SEARCH, out=str(tmp_path / "r"))
    assert RunFolder(tmp_path / "r").runs_saved() == 0


def test_a_full_disk_after_the_search_does_not_cost_the_search(tmp_path, monkeypatch):
    """Even of a search that reports nothing, as one of another package may."""

    def full(*_: Any, **__: Any) -> Any:
        raise PivotalError("Cannot write: the disk is full.")

    monkeypatch.setattr("pivotal.searches.base.Attempt.report", lambda *_: None)
    monkeypatch.setattr("pivotal.jobs.find.summarise", full)
    with pytest.raises(PivotalError, match="full"):
        find(QUESTION, Attribution(max_units=3, refit=2), out=str(tmp_path / "r"))
    assert (tmp_path / "r" / "checkpoint.pt").is_file()


def test_a_bad_request_costs_nothing_even_with_overwrite(finding, tmp_path):
    out = tmp_path / "r"
    done = find(QUESTION, replace(SEARCH, updates=10), out=str(out)).summary
    for search in (replace(SEARCH, max_units=65.0), replace(SEARCH, max_fractional=65.0)):
        with pytest.raises(PivotalError, match="unit"):
            find(QUESTION, search, out=str(out), overwrite=True)
        with pytest.raises(PivotalError, match="unit"):
            find(QUESTION, search, out=str(tmp_path / "new"))
    with pytest.raises(PivotalError, match="seed"):
        find(replace(QUESTION, seed=2**63), SEARCH, out=str(out), overwrite=True)
    assert RunFolder(out).summary().best == done.best
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(("max_kl", "kept"), [(1e-6, False), (50.0, True)])
def test_a_bound_on_kl_is_kept_or_said_to_be_missed(tmp_path, max_kl, kept):
    search = replace(SEARCH, updates=5, refit=0, max_kl=max_kl)
    summary = find(QUESTION, search, out=str(tmp_path / "r")).summary
    assert (summary.max_kl, summary.kl_bound_kept) == (max_kl, kept)


def test_pairs_that_cannot_be_asked_are_counted_and_said(tmp_path):
    lines = []
    for noun in "abcd":
        for number, s in (("singular", ""), ("plural", "s")):
            for verb in ("a", "b", "zz" if noun == "a" else "c"):
                words = {"singular": f"verb0{verb}s", "plural": f"verb0{verb}"}
                lines.append({"prefix": f"The noun0{noun}{s}", "cue": 1, "words": words, "label": number})
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    looking_on = Onlooker()
    question = Question(model="planted", phenomenon=str(path), test=0.25)
    summary = find(
        question, replace(SEARCH, max_units=1.0), out=str(tmp_path / "r"), watch=looking_on
    ).summary
    assert summary.rejected == Rejections(total=2, reasons={"outside the vocabulary: verb0zzs": 2})
    assert any(
        "planted cannot score 2 of 24 pairs" in text and "verb0zzs (2)" in text for text in looking_on.said
    )


def test_single_steps_masks_per_direction_and_a_split_by_words(tmp_path):
    """Seed 1 puts verbs of all three classes into both parts; seed 0 would leave one of them out of training."""
    question = replace(QUESTION, steps="single", split="words", test=12, seed=1)
    search = replace(SEARCH, masks="per-direction")
    looking_on = Onlooker()
    summary = find(question, search, out=str(tmp_path / "r"), watch=looking_on).summary
    assert summary.steps == "single"
    assert summary.pairs.test == 12
    dropped = summary.pairs.dropped
    assert dropped > 0 and any(f"training words: {dropped:,}." in text for text in looking_on.said)
    assert list(summary.runs[0].unit_labels) == [str(unit) for unit in plant().units]
    assert summary.flip_accuracy == 1.0


@pytest.mark.slow
def test_more_evidence_keeps_the_phenomena_that_were_asked(tmp_path):
    search = LearnedMask(updates=20, refit=2)
    pairs = QUESTION.load_pairs()
    others = [replace(pairs[:60], name=name) for name in ("first", "second")]

    def effects(**asked: Any) -> list[str]:
        found = find(QUESTION, search, controls=0, out=str(tmp_path / "r"), **asked)
        return [effect.phenomenon for effect in found.summary.evidence.effects]

    assert effects(others=others[:1]) == ["first"]
    assert effects(others=others) == ["first", "second"]
    assert effects(evidence="full")[:2] == ["first", "second"]
    assert "permuted" in (tmp_path / "r" / "summary.json").read_text()


def test_missing_random_sets_are_added_to_a_finished_run_and_none_is_taken_away(tmp_path):
    """A run with few sets that is repeated with more is the same as one that had all of them from the start."""
    search = LearnedMask(updates=20, refit=2)

    def ask(name: str, controls: int) -> Finding:
        return pivotal.find(
            QUESTION, search=search, controls=controls, evidence="none", out=str(tmp_path / name)
        )

    at_once = ask("at once", 5)
    assert ask("later", 0).summary.controls.sets == 0
    added = ask("later", 5)
    assert not added.already
    assert without_times(tmp_path / "later") == without_times(tmp_path / "at once")
    fewer = ask("later", 2)
    assert fewer.already and fewer.summary == added.summary
    assert at_once.summary.controls.sets == 5


# -- the machine --


def test_a_cpu_has_its_threads():
    assert machine(torch.device("cpu")).endswith(f" {torch.get_num_threads()} used")


def test_a_gpu_says_whether_its_products_have_few_digits(monkeypatch):
    """With a stand-in for the name of a GPU. The settings of torch can be changed without one."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "A GPU")
    try:
        for precision, said in (("highest", "A GPU"), ("high", "A GPU, TF32")):
            torch.set_float32_matmul_precision(precision)
            assert machine(torch.device("cuda")) == said
    finally:
        torch.set_float32_matmul_precision("highest")
