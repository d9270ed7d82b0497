"""Bases that are fitted to the states of a site: principal components, and completions of given directions."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.models.bases.basis import Basis

_FLOOR = 1e-3
"""The smallest standard deviation of a whitened coordinate, relative to the largest. A coordinate that hardly varies
would otherwise be scaled up to noise."""


def pca(states: Float[Tensor, "states width"], kind: str = "pca") -> Basis:
    """The principal components of states, by falling variance. With fewer states than coordinates, the last components
    are an arbitrary completion."""
    mean, directions, _ = components(states)
    return Basis.rotation(kind, directions.float(), mean.float())


def whitened(states: Float[Tensor, "states width"]) -> Basis:
    """The principal components, each in units of its own standard deviation."""
    mean, directions, variance = components(states)
    deviation = variance.clamp(min=0).sqrt()
    scale = deviation.clamp(min=_FLOOR * float(deviation.max().clamp(min=1e-12)))[:, None]
    encoder = directions / scale
    return Basis(
        "whitened",
        encoder.T.float().contiguous(),
        (directions * scale).float(),
        -(encoder @ mean).float(),
    )


def completed(kind: str, first: Float[Tensor, "some width"], states: Float[Tensor, "states width"]) -> Basis:
    """An orthonormal basis that begins with given orthonormal directions. The rest are the principal components of what
    the states have outside them."""
    first = first.double()
    mean, directions, _ = components(states, outside=first)
    return Basis.rotation(kind, torch.cat([first, directions[: -len(first)]]).float(), mean.float())


@torch.no_grad()
def components(
    states: Float[Tensor, "states width"], outside: Float[Tensor, "some width"] | None = None
) -> tuple[Float[Tensor, " width"], Float[Tensor, "width width"], Float[Tensor, " width"]]:
    """The mean, the principal components as rows and their variances, in double precision. With `outside`, the states
    are projected onto the complement of some orthonormal directions; these directions come last."""
    if len(states) < 2:
        raise PivotalError(
            f"A basis is fitted to at least two states, but there are {len(states)}. Use more pairs or more text."
        )
    # The singular vectors of the states are more exact than those of the covariance, but wide states take too long.
    rows = states.double()
    mean = rows.mean(0)
    rows = rows - mean
    if outside is not None:
        rows = rows - (rows @ outside.T) @ outside
    covariance = rows.T @ rows / len(rows)
    if outside is not None:  # the lowest variances, even where all others are zero
        covariance = covariance - outside.T @ outside * (1 + covariance.diagonal().sum())
    variance, vectors = torch.linalg.eigh(covariance)
    directions = vectors.T.flip(0)
    # The sign of an eigenvector is arbitrary: its largest entry is made positive.
    largest = directions.gather(1, directions.abs().argmax(1, keepdim=True))
    return mean, directions * torch.where(largest < 0, -1.0, 1.0), variance.flip(0)
