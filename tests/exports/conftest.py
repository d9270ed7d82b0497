"""Tiny models with random weights, interventions in them, and environments with the libraries of others."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.models.tiny import PREFIXES, random_model, tokenizer
from tests.paths import ROOT
from torch import Tensor

from pivotal.models import load_model
from pivotal.models.transformers.lm import TransformersLM
from pivotal.records.intervention import Intervention
from pivotal.units import Steps, Unit

INPUTS = (("mlp.0", 3), ("mlp.0", 7), ("attn.1", 2), ("head.2", 1), ("mlp.2", 5))
"""Units that enter a projection."""
ALL = (("mlp.0", 3), ("resid.0", 9), ("attn.1", 0), ("resid.2", 4))
"""Units of which some are outputs of whole blocks."""


@dataclass(frozen=True)
class Tiny:
    """A model in a folder, as pivotal runs it."""

    folder: Path
    lm: TransformersLM

    def intervention(
        self,
        units: tuple[tuple[str, int], ...] = INPUTS,
        steps: Steps = "every",
        labels: tuple[str, str] = ("one", "two"),
    ) -> Intervention:
        sizes = {site.name: site.size for site in self.lm.sites}
        chosen = tuple(Unit(site, index, index + 1, sizes[site]) for site, index in units)
        values = np.random.default_rng(0).normal(size=(2, sum(unit.size for unit in chosen)))
        active = np.ones((2, len(chosen)), dtype=bool)
        active[1, 0] = False  # as from a search with one mask per direction
        return Intervention(
            units=chosen,
            directions=labels,
            values=values,
            active=active,
            steps=steps,
            model=self.lm.name,
            model_fingerprint=self.lm.fingerprint(),
            phenomenon="number",
            data_fingerprint="0",
        )

    def rows(self) -> list[list[int]]:
        """Sentences as transformers reads them, with what stands before a sentence."""
        return [[*self.lm.priming_tokens, *self.lm.encode(text).ids] for text in PREFIXES]

    def logits(self, intervention: Intervention, direction: str, cue: int | None = None) -> Tensor:
        """What pivotal computes after each sentence; the cue is a position in a row of `rows`."""
        edited = self.lm.intervened(intervention, direction, cue=0)
        first = len(self.lm.priming_tokens)
        position = None if cue is None else cue - first
        return torch.cat([edited.next_logits([row[first:]], position) for row in self.rows()])


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Tiny]:
    made: dict[tuple[str, bool], Tiny] = {}

    def make(family: str, *, bos: bool = False) -> Tiny:
        if (family, bos) not in made:
            folder = tmp_path_factory.mktemp("models") / "tiny"
            random_model(family).save_pretrained(folder)
            tokenizer(bos=bos).save_pretrained(folder)
            lm = load_model(folder, device="cpu")
            assert isinstance(lm, TransformersLM)
            made[family, bos] = Tiny(folder, lm)
        return made[family, bos]

    return make


def peer_python(package: str) -> str:
    """The interpreter of the environment with a library of others. `make peers` makes them; elsewhere,
    PIVOTAL_PEERS names the folder of the environments."""
    home = Path(os.environ.get("PIVOTAL_PEERS", ROOT / "build" / "peers"))
    python = home / package / "bin" / "python"
    if not python.is_file():
        pytest.skip(f"there is no environment with {package}: run `make peers`")
    return str(python)
