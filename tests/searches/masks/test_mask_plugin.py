"""One file adds a mask: somebody else's, installed beside pivotal, goes through `list`, `find` and the contracts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pivotal.errors import PivotalError
from pivotal.options import build
from pivotal.searches.learned import LearnedMask

PLUGIN = """
from dataclasses import dataclass
from typing import ClassVar

import torch

from pivotal.searches.masks import MaskFamily
from pivotal.searches.masks import Pathwise


@dataclass(frozen=True)
class StraightThrough(MaskFamily):
    name: ClassVar[str] = "straight-through"
    summary: ClassVar[str] = "a coin flip with the gradient of its probability"

    def sample(self, logits, uniform):
        p = logits.sigmoid()
        return (uniform < p).to(p.dtype) + (p - p.detach())

    def nonzero(self, logits):
        return logits.sigmoid()

    def fractional(self, logits):
        return torch.zeros_like(logits)

    def mean(self, logits):
        return logits.sigmoid()

    def estimator(self):
        return Pathwise()
"""
CONTRACTS = """
from pivotal.searches.learned import LearnedMask
from pivotal.searches.masks import MASKS
from pivotal.testing import check_mask, check_search

check_mask(MASKS.get("straight-through")())
check_search(LearnedMask(mask="straight-through", max_units=3, updates=40, refit=6, max_fractional=2))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pip makes of a package of one module: the module, and what its metadata says of it."""
    site = tmp_path_factory.mktemp("site")
    (site / "one_mask.py").write_text(PLUGIN)
    info = site / "one_mask-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: one-mask\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[pivotal.masks]\nstraight-through = one_mask:StraightThrough\n")
    return site


def python(installed: Path, *arguments: str) -> str:
    path = os.pathsep.join([str(installed), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        cwd=installed,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_it_is_listed_and_found_with(installed: Path) -> None:
    listed = json.loads(python(installed, "-m", "pivotal", "list", "masks", "--json"))["masks"]
    assert [mask["name"] for mask in listed] == ["bernoulli", "hard-concrete", "straight-through"]
    options = ["-o", "mask=straight-through", "-o", "updates=60", "-o", "refit=6", "--max-units", "3"]
    python(
        installed, "-m", "pivotal", "find", "planted", "planted", *options, "--controls", "0", "--out", "run"
    )
    settings = json.loads((installed / "run" / "run.json").read_text())["settings"]
    assert settings["search"]["mask"] == "straight-through"
    assert json.loads((installed / "run" / "summary.json").read_text())["flip_accuracy"] > 0.9


@pytest.mark.slow
def test_it_keeps_the_contracts(installed: Path) -> None:
    python(installed, "-c", CONTRACTS)


@pytest.mark.parametrize("mask", ["hard-concrete", "bernoulli"])
def test_our_own_masks_can_be_named(mask: str) -> None:
    assert build(LearnedMask, {"mask": mask}).family.name == mask


def test_a_mask_that_there_is_not_is_refused_by_name() -> None:
    with pytest.raises(PivotalError, match=r"no masks named 'bernouli'. Did you mean 'bernoulli'") as refused:
        LearnedMask(mask="bernouli")
    assert refused.value.field == "mask"
