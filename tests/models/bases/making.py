"""Small bases for tests."""

import torch

from pivotal.models.bases import Basis
from pivotal.models.bases.basis import pca
from pivotal.records.basis import Activation

ACTIVATIONS: tuple[Activation, ...] = ("relu", "jumprelu", "topk")


def states(width: int, count: int = 40, seed: int = 0) -> torch.Tensor:
    noise = torch.Generator().manual_seed(seed)
    return torch.randn(count, width, generator=noise) * torch.linspace(3, 0.1, width) + 1.0


def autoencoder(width: int, activation: Activation, coordinates: int = 20, seed: int = 0) -> Basis:
    """An autoencoder with random weights, which reconstructs nothing well."""
    noise = torch.Generator().manual_seed(seed)
    return Basis(
        "sae",
        torch.randn(width, coordinates, generator=noise) / width**0.5,
        torch.randn(coordinates, width, generator=noise) / width**0.5,
        torch.randn(coordinates, generator=noise) * 0.1,
        activation,
        torch.rand(coordinates, generator=noise) * 0.3 if activation == "jumprelu" else None,
        top_k=6 if activation == "topk" else 0,
    )


def every_kind(width: int) -> dict[str, Basis]:
    """One basis of each form, by name."""
    return {
        "pca": pca(states(width)),
        "rotation": Basis.rotation("rotation", torch.linalg.qr(states(width, width)).Q.T[: width // 2]),
        **{activation: autoencoder(width, activation) for activation in ACTIVATIONS},
    }
