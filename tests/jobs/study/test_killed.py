"""Whatever stops a study, what it has is kept; gone on with, it ends where one ends that was left alone."""

import random
import signal
import time
from pathlib import Path

import pytest
from small_study import lasting
from tests.processes import Process, until

from pivotal import study
from pivotal.jobs.study.recipe import parse_recipe
from pivotal.records.study import read_results

RECIPE = """\
name: killed
runs: 2
resources: {cpus: 1}
defaults: {phenomenon: planted, test: 81, refit: 2, max_units: 3}
grid:
  model: [planted, "planted:1"]
  steps: [every, single]
  length: [{label: short, updates: 10}, {label: middling, updates: 30}]
also:
  - {label: {model: planted, search: greedy}, model: planted, search: greedy}
  - {label: {model: planted, search: attribution}, model: planted, search: attribution}
"""
"""Twenty runs in ten batches."""


def start(recipe: Path, out: Path) -> Process:
    return Process("pivotal", "study", recipe, "--out", out)


def traces(out: Path) -> int:
    """Grows with whatever a study writes."""
    return sum(1 for _ in out.rglob("*"))


def rows_in(out: Path) -> int:
    return len(read_results(out / "results.jsonl"))


def kill(running: Process, out: Path, chance: random.Random, most: int) -> None:
    """Kill it after a few changes of its files, or after some runs. What it has written decides when, not the clock."""
    seen, rows, changes = traces(out), rows_in(out), chance.randint(1, 12)
    while changes and rows_in(out) < rows + most and running.poll() is None:
        time.sleep(0.01)
        changes, seen = changes - (traces(out) != seen), traces(out)
    running.kill()
    running.wait()


@pytest.mark.slow
def test_a_study_that_is_killed_five_times_ends_like_one_that_is_not(tmp_path):
    recipe, out, chance = tmp_path / "killed.yaml", tmp_path / "killed", random.Random(0)
    recipe.write_text(RECIPE)
    for _ in range(5):
        kill(start(recipe, out), out, chance, most=2)
    assert rows_in(out) < 20, "nothing was left to go on with"
    last = start(recipe, out)
    said = last.communicate()
    assert last.returncode == 0, said
    alone = study(parse_recipe(RECIPE, "killed.yaml"), out=tmp_path / "alone")
    rows = read_results(out / "results.jsonl")
    assert len(rows) == 20 and not alone.failed
    assert lasting(rows) == lasting(alone.rows)


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_says_what_is_saved_and_how_to_resume(tmp_path, signum):
    recipe, out = tmp_path / "killed.yaml", tmp_path / "out"
    recipe.write_text(RECIPE)
    running = start(recipe, out)
    until(lambda: rows_in(out) or running.poll() is not None)
    running.send_signal(signum)
    said = "".join(running.communicate())
    assert running.returncode == 128 + signum, said
    rows = rows_in(out)
    assert f"Stopped; {rows} of 20 runs are in {out / 'results.jsonl'}" in said
    assert f"Resume with: pivotal study {recipe} --out {out}" in said
    assert "Traceback" not in said
