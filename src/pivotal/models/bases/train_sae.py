"""Train a small sparse autoencoder on the states of a site, and save it in the layout of SAELens."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from safetensors.numpy import save_file
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.files import disk, write_atomically, write_text
from pivotal.models.bases.basis import Basis

_RATE, _BATCH = 1e-3, 512
_DEAD = 100
"""A feature that was not active in this many updates is dead. The best dead features learn to explain the errors."""


@dataclass(frozen=True)
class SAESettings:
    """How an autoencoder is trained."""

    features: int = 0
    """Features of the autoencoder. 0: eight for every coordinate of the site."""
    top_k: int = 16
    """Features that may be active in a state."""
    updates: int = 2000
    """Optimisation steps, with 512 states each."""

    def check(self, width: int) -> int:
        """The number of features. Raises PivotalError if the settings cannot be used."""
        features = self.features or 8 * width
        if not 1 <= self.top_k < features or self.updates < 1:
            raise PivotalError(
                f"An autoencoder has more features than may be active, and at least one update, but it has {features} "
                f"features, {self.top_k} of them active, and {self.updates} updates."
            )
        return features


@dataclass(frozen=True)
class TrainedSAE:
    """An autoencoder and how well it does."""

    basis: Basis
    b_dec: Float[Tensor, " width"]
    unexplained: float
    """The share of the variance that the reconstruction leaves unexplained."""
    dead: int
    """The features that no state activates."""


def train_sae(
    states: Float[Tensor, "states width"],
    settings: SAESettings,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> TrainedSAE:
    """A top-k autoencoder (Gao et al. 2024) with unit-norm rows of the decoder."""
    width, device = states.shape[1], states.device
    features = settings.check(width)
    noise = torch.Generator().manual_seed(seed)
    b_dec = states.mean(0)
    scale = float((states - b_dec).square().mean().sqrt().clamp(min=1e-12))
    rows = (states - b_dec) / scale
    decoder = torch.nn.functional.normalize(torch.randn(features, width, generator=noise), dim=1).to(device)
    parameters = [
        decoder.T.clone().requires_grad_(),
        decoder.requires_grad_(),
        torch.zeros(features, device=device),
    ]
    encoder, decoder, bias = parameters
    bias.requires_grad_()
    optimiser = torch.optim.Adam(parameters, lr=_RATE)
    silent = torch.zeros(features, dtype=torch.long, device=device)
    with torch.enable_grad():
        for update in range(settings.updates):
            x = rows[torch.randint(len(rows), (_BATCH,), generator=noise).to(device)]
            before = x @ encoder + bias
            best = before.topk(settings.top_k, 1)
            z = torch.zeros_like(before).scatter(1, best.indices, best.values.relu())
            error = x - z @ decoder
            loss = error.square().mean()
            dead = silent > _DEAD
            if bool(dead.any()):
                loss = loss + _revive(before, error.detach(), decoder, dead) / 32
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            with torch.no_grad():
                decoder.copy_(torch.nn.functional.normalize(decoder, dim=1))
                silent = torch.where((z > 0).any(0), 0, silent + 1)
            if progress is not None:
                progress(update + 1)
    encoder, decoder, bias = (parameter.detach() for parameter in parameters)
    # In the scale of the states: z is as large as what it writes.
    return _trained(states, b_dec, encoder, decoder, bias * scale, settings.top_k)


def _revive(before: Tensor, error: Tensor, decoder: Tensor, dead: Tensor) -> Tensor:
    """The error that the best dead features leave of the error."""
    best = before.where(dead, -torch.inf).topk(min(int(dead.sum()), error.shape[1] // 2), 1)
    z = torch.zeros_like(before).scatter(1, best.indices, best.values.relu())
    return (error - z @ decoder).square().mean()


@torch.no_grad()
def _trained(
    states: Tensor, b_dec: Tensor, encoder: Tensor, decoder: Tensor, b_enc: Tensor, top_k: int
) -> TrainedSAE:
    basis = Basis("sae", encoder, decoder, b_enc - b_dec @ encoder, "topk", top_k=top_k)
    left = active = torch.zeros((), device=states.device)
    for part in states.split(2048):
        z = basis.encode(part)
        left = left + (part - b_dec - z @ decoder).square().sum()
        active = active + (z > 0).sum(0)
    total = (states - b_dec).square().sum()
    return TrainedSAE(basis, b_dec, float(left / total), int((active == 0).sum()))


def save_sae(folder: Path, trained: TrainedSAE, site: str, model: str, corpus: str) -> None:
    """Write `sae_weights.safetensors` and `cfg.json` as SAELens 6 does. SAELens names places by hooks of
    TransformerLens; a site that it does not have keeps our name."""
    kind, _, level = site.partition(".")
    hooks = {"resid": "hook_resid_post", "mlp": "mlp.hook_post", "attn": "attn.hook_z"}
    basis = trained.basis
    tensors = {
        "W_enc": basis.encoder,
        "W_dec": basis.decoder,
        "b_enc": basis.bias + trained.b_dec @ basis.encoder,
        "b_dec": trained.b_dec,
    }
    config = {
        "architecture": "topk",
        "k": basis.top_k,
        "d_in": basis.width,
        "d_sae": basis.coordinates,
        "dtype": "float32",
        "device": "cpu",
        "apply_b_dec_to_input": True,
        "normalize_activations": "none",
        "reshape_activations": "none",
        "rescale_acts_by_decoder_norm": False,
        "metadata": {
            "model_name": model,
            "hook_name": f"blocks.{level}.{hooks[kind]}" if kind in hooks else site,
            "dataset_path": corpus,
        },
    }
    arrays = {name: np.ascontiguousarray(tensor.cpu().numpy()) for name, tensor in tensors.items()}
    with disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / "sae_weights.safetensors", lambda path: save_file(arrays, path))
    write_text(folder / "cfg.json", json.dumps(config, indent=1) + "\n")
