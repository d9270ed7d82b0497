"""`pivotal export`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.models.tiny import random_model, tokenizer

from pivotal.models import load_model
from pivotal.models.bases import Basis, stored_bases
from pivotal.records.intervention import Intervention
from pivotal.units import Unit


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An intervention without a run, in a tiny model in a folder."""
    here = tmp_path_factory.mktemp("export")
    random_model("llama").save_pretrained(here / "tiny")
    tokenizer().save_pretrained(here / "tiny")
    lm = load_model(here / "tiny", device="cpu")
    units = (Unit("mlp.0", 3, 4), Unit("head.1", 2, 3, 4))
    about = (str(here / "tiny"), lm.fingerprint(), "number/agreement", "0")
    found = Intervention(units, ("singular", "plural"), np.ones((2, 5)), "every", *about)
    return found.save(here / "found")


def test_export_writes_a_folder(
    pivotal: Any, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = pivotal("export", saved, "--to", "snippet", "--direction", "plural", "--device", "cpu")
    assert done.code == 0, done.err
    (out,) = (tmp_path / "exports").iterdir()
    assert out.name.startswith("number-agreement-every-") and out.name.endswith("tiny-snippet")
    assert f"Written to exports/{out.name}" in done.out and "'plural'" in (out / "intervene.py").read_text()
    again = ("export", saved, "--to", "snippet", "--out", out)
    pivotal(*again).refused("holds an export already", "--overwrite")
    told = json.loads(pivotal(*again, "--overwrite", "--json").out)
    assert told["folder"] == str(out) and told["directions"] == ["singular", "plural"]
    assert told["approximate"] == [] and told["target"] == "snippet"


def test_units_in_a_basis_are_exported_from_their_folder_alone(
    pivotal: Any, saved: Path, tmp_path: Path
) -> None:
    own = Intervention.load(saved)
    site, unit = "resid.1@pca", Unit("resid.1@pca", 2, 3)
    width = next(s.coordinates for s in load_model(own.model, device="cpu").sites if s.name == "resid.1")
    bases = stored_bases({site: Basis.rotation("pca", torch.eye(width))}, (unit,))
    about = (own.model, own.model_fingerprint, own.phenomenon, "0")
    found = Intervention((unit,), own.directions, np.ones((2, 1)), "every", *about, bases=bases)
    found.save(tmp_path / "found")
    told = json.loads(
        pivotal("export", tmp_path / "found", "--to", "nnsight", "--out", tmp_path / "out", "--json").out
    )
    assert told["units"] == ["resid.1@pca:2"] and "bases.safetensors" in told["files"]


def test_what_export_refuses(pivotal: Any, saved: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "out")
    pivotal("export", saved, "--to", "snipet", *out).refused("'snipet'", "Did you mean 'snippet'")
    pivotal("export", saved, "--to", "peft", "--direction", "dual", *out).refused(
        "'dual'", "singular or plural"
    )
    lm = load_model("planted")
    about = ("planted", lm.fingerprint(), "planted", "0")
    units, labels = (next(iter(lm.unit_space())),), ("singular", "plural")
    for steps, target, said in (
        ("every", "snippet", "planted is not one"),
        ("single", "peft", "one word of a sentence"),
    ):
        found = Intervention(units, labels, np.ones((2, 1)), steps, *about)  # type: ignore[arg-type]
        pivotal("export", found.save(tmp_path / steps), "--to", target, *out).refused(said)
    assert not (tmp_path / "out").exists()
