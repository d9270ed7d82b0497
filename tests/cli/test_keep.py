"""`pivotal find --keep`: what must stay bounds the search, and the effect on it is reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.conftest import FIND

from pivotal.jobs.run_folder import RunFolder

QUICK = ("--controls", "0", "--evidence", "none")


def test_what_must_stay_is_not_flipped(pivotal: Any, tmp_path: Path) -> None:
    """The planted pairs cannot both flip and stay."""
    done = pivotal(*FIND, *QUICK, "--keep", "planted", "--out", tmp_path / "run")
    assert done.code == 0, done.err
    folder = RunFolder.open(tmp_path / "run")
    summary = folder.summary()
    assert folder.settings["keep"] == "planted" and summary.max_kl == 0.02
    assert summary.flip_accuracy < 0.5
    assert summary.kept is not None and [effect.phenomenon for effect in summary.kept.effects] == ["planted"]
    assert (
        "What had to stay" in done.out
        and "What had to stay" in (tmp_path / "run" / "report.html").read_text()
    )
    # Scores and certificates are made with the run's own question.
    scores = json.loads(pivotal("evaluate", tmp_path / "run", "--json").out)
    assert scores["flip_accuracy"] == summary.flip_accuracy


def test_what_cannot_be_kept_is_refused(pivotal: Any, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "run")
    pivotal(*FIND, "--keep", "gender-bias", *out).refused("no sentence of gender-bias", "--keep")
    pivotal(*FIND, "--keep", "nothing", *out).refused("'nothing' is none of them")
    pivotal(*FIND, "--keep", "planted", "--values", "interchange", *out).refused("--values unbounded")
    assert not (tmp_path / "run").exists()
