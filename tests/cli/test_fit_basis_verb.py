"""`pivotal fit-basis`."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def test_options_of_an_autoencoder_are_not_ignored(pivotal: Any, tmp_path: Path) -> None:
    fit = ("fit-basis", "planted", "hidden.0", "--out", tmp_path / "basis")
    for option in ("--features", "--top-k", "--updates", "--seed"):
        pivotal(*fit, option, "3").refused(f"{option} is an option of --kind sae", "--kind is pca")
    assert not (tmp_path / "basis").exists()
