"""A signal stops a study, which says what is saved. tests/attack kills studies, which end as if they had been left
alone."""

import signal

import pytest
from small_study import rows_in
from tests.processes import Process, until

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


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_says_what_is_saved_and_how_to_resume(tmp_path, signum):
    recipe, out = tmp_path / "killed.yaml", tmp_path / "out"
    recipe.write_text(RECIPE)
    running = Process("pivotal", "study", recipe, "--out", out)
    until(lambda: rows_in(out) or running.poll() is not None)
    running.send_signal(signum)
    said = "".join(running.communicate())
    assert running.returncode == 128 + signum, said
    rows = len(rows_in(out))
    assert f"Stopped; {rows} of 20 runs are in {out / 'results.jsonl'}" in said
    assert f"Resume with: pivotal study {recipe} --out {out}" in said
    assert "Traceback" not in said
