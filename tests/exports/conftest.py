"""Tiny models with random weights, interventions in them, and environments with the libraries of others."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.models.bases.making import autoencoder
from tests.models.tiny import PREFIXES, save_tiny
from tests.paths import ROOT
from torch import Tensor

from pivotal import Intervention, load_model
from pivotal.models import TransformersLM
from pivotal.models.bases import Basis, stored_bases
from pivotal.units import Steps, Unit

Units = tuple[tuple[str, int], ...]
INPUTS: Units = (("mlp.0", 3), ("mlp.0", 7), ("attn.1", 2), ("head.2", 1), ("mlp.2", 5))
"""Units that enter a projection."""
ALL = (("mlp.0", 3), ("resid.0", 9), ("attn.1", 0), ("resid.2", 4))
"""Units of which some are outputs of whole blocks."""
LINEAR = (("mlp.0@pca", 3), ("mlp.0@pca", 0), ("mlp.1", 7), ("attn.2@scaled", 4))
"""Units in linear bases, and one in the model's own. They enter projections."""
FEATURES = (
    *(("mlp.0@sae", 3), ("mlp.0@sae", 30), ("mlp.1", 7), ("resid.0@pca", 2)),
    *(("attn.1@jumprelu", 5), ("resid.2@topk", 9)),
)
"""Features of sparse autoencoders with each activation, and units of other bases."""


@dataclass(frozen=True)
class Tiny:
    """A model in a folder, as pivotal runs it."""

    folder: Path
    lm: TransformersLM

    def intervention(
        self, units: Units = INPUTS, steps: Steps = "every", labels: tuple[str, str] = ("one", "two")
    ) -> Intervention:
        sizes = {site.name: site.size for site in self.lm.sites}
        chosen = tuple(Unit(site, index, sizes.get(site, 1)) for site, index in units)
        values = np.random.default_rng(0).normal(size=(2, sum(unit.size for unit in chosen)))
        bases = {site: basis(self.lm, site) for site, _ in units if "@" in site}
        active = np.ones((2, len(chosen)), dtype=bool)
        active[1, 0] = False  # as from a search with one mask per direction
        about = (steps, self.lm.name, self.lm.fingerprint(), "number", "0")
        stored = stored_bases(bases, chosen)
        return Intervention(chosen, labels, values, *about, active=active, bases=stored)

    def rows(self) -> list[list[int]]:
        """Sentences as transformers reads them, with what stands before a sentence."""
        return [[*self.lm.vocabulary.priming, *self.lm.encode(text).ids] for text in PREFIXES]

    def logits(self, intervention: Intervention, direction: str, cue: int | None = None) -> Tensor:
        """What pivotal computes after each sentence; the cue is a position in a row of `rows`."""
        edited = self.lm.intervened(intervention, direction, cue=0)
        first = len(self.lm.vocabulary.priming)
        position = None if cue is None else cue - first
        return torch.cat([edited.next_logits([row[first:]], position) for row in self.rows()])


def basis(lm: TransformersLM, name: str) -> Basis:
    """A random basis of a site: a rotation, or a sparse autoencoder with the activation that its name says."""
    site, _, kind = name.partition("@")
    width = next(one.coordinates for one in lm.sites if one.name == site)
    draw = torch.Generator().manual_seed(len(name))
    if kind in ("pca", "scaled"):
        turned = torch.linalg.qr(torch.randn(width, width, generator=draw))[0]
        made = Basis.rotation(kind, turned, torch.randn(width, generator=draw) / 5)
        return made if kind == "pca" else replace(made, encoder=made.encoder / 2, decoder=2 * made.decoder)
    return autoencoder(width, "relu" if kind == "sae" else kind, 3 * width)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Tiny]:
    made: dict[tuple[str, bool], Tiny] = {}

    def make(family: str, *, bos: bool = False) -> Tiny:
        if (family, bos) not in made:
            folder = save_tiny(tmp_path_factory.mktemp("models") / "tiny", family, bos=bos)
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
