"""`python -m pivotal.lm` runs on a machine without the packages of the command line and of reports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pivotal.models import load_model

NOT_NEEDED = (
    "typer",
    "click",
    "rich",
    "yaml",
    "altair",
    "vl_convert",
    "transformers",
    "huggingface_hub",
    "ray",
)

START = f"""
import runpy, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {NOT_NEEDED!r}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
runpy.run_module("pivotal.lm", run_name="__main__")
"""


@pytest.mark.slow
def test_training_needs_no_package_of_the_command_line(corpus: Path, tmp_path: Path) -> None:
    small = ("--hidden=8", "--embedding=8", "--batch=16", "--epochs=1", "--cell=gru", "--snapshots=2K")
    done = subprocess.run(
        [sys.executable, "-c", START, "--corpus", str(corpus), "--out", str(tmp_path / "model"), *small],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "validation perplexity" in done.stdout
    for folder in ("model", "model.snapshots/model-2K"):
        assert load_model(tmp_path / folder, device="cpu").name == Path(folder).name
