"""Runs whose figures must stay what they were: a change that only moves code changes none of them.

The files beside this one hold a command and the figures of its `summary.json`. Integers, units and seeds are compared
exactly, other figures with a tolerance, since processors differ in the last digits and learning adds these up.

To compare two versions of the code to the last digit, run this test in both, on one machine, with the same folder:

    PIVOTAL_GOLDEN=/tmp/golden OMP_NUM_THREADS=1 python -m pytest tests/golden

The first run writes its figures there and skips; the second compares with them exactly.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.figures import empty_figures
from typer.testing import CliRunner

from pivotal import load_phenomenon
from pivotal.cli.main import app

HERE = Path(__file__).parent
FOLDER = os.environ.get("PIVOTAL_GOLDEN")
SLOW = {"lstm-attribution", "planted-paper", "planted-single-kl"}
PARTS = ("flip_accuracy", "units", "kl", "kl_after_edit", "clean_accuracy", "kl_bound_kept", "best", "median")
COUNTS = ("forward_nodes", "backward_nodes", "pairs")
RUN = ("seed", "unit_labels", "flip_accuracy", "kl", "values")


def figures_of(summary: dict[str, Any]) -> dict[str, Any]:
    """What is compared: the result, the work and the pairs; neither times nor texts."""
    found = {name: summary[name] for name in (*PARTS, *COUNTS) if name in summary}
    controls = {name: summary["controls"][name] for name in ("sets", "flip_accuracy", "p_value", "broken")}
    return {
        **found,
        "controls": controls,
        "runs": [{name: run[name] for name in RUN} for run in summary["runs"]],
    }


def figures(command: list[str], place: Path) -> dict[str, Any]:
    load_phenomenon("number-agreement")[::200].save(place / "few.jsonl")  # the question of a short run
    arguments = [word.replace("PLACE", str(place)) for word in command]
    with empty_figures():
        done = CliRunner().invoke(app, [*arguments, "--out", str(place / "run")])
    assert done.exit_code == 0, done.output
    return figures_of(json.loads((place / "run" / "summary.json").read_text()))


def near(found: Any, expected: Any, path: str = "") -> None:
    """Equal, but for the last digits of what is not an integer."""
    assert type(found) is type(expected), path
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), path
        for name in expected:
            near(found[name], expected[name], f"{path}.{name}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), path
        for i, (one, other) in enumerate(zip(found, expected, strict=True)):
            near(one, other, f"{path}[{i}]")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=0.03, abs=0.01), path
    else:
        assert found == expected, path


CASES = sorted(path.stem for path in HERE.glob("*.json"))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in CASES]
)
def test_the_figures_are_what_they_were(name, tmp_path):
    golden = json.loads((HERE / f"{name}.json").read_text())
    found = figures(golden["command"], tmp_path)
    if FOLDER is None:
        near(found, golden["figures"])
        return
    stored = Path(FOLDER) / f"{name}.json"
    if not stored.is_file():
        stored.parent.mkdir(parents=True, exist_ok=True)
        stored.write_text(json.dumps(found))
        pytest.skip(f"The figures were written to {stored}; the next run compares with them.")
    assert found == json.loads(stored.read_text())
