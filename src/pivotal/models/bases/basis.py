"""A basis: the units of a site are the coordinates z = encode(h) of its activation h.

An edit of coordinates changes the activation by the *difference* that they make, `h + (z' - z) W_dec`. Coordinates that
are not edited therefore change nothing, whatever the error with which the basis reconstructs an activation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.records.basis import Activation, BasisCard, StoredBasis
from pivotal.units import Unit


@dataclass(frozen=True, eq=False)
class Basis:
    """An encoder, a decoder and, for a sparse autoencoder, an activation function."""

    kind: str
    encoder: Float[Tensor, "width held"]
    decoder: Float[Tensor, "held width"]
    bias: Float[Tensor, " held"]
    activation: Activation = "none"
    threshold: Float[Tensor, " held"] | None = None
    """For jumprelu: a coordinate whose product with the encoder does not exceed it is zero."""
    top_k: int = 0
    """For topk: the number of coordinates that may differ from zero."""
    units: Int[Tensor, " held"] | None = None
    """The coordinates that are held, if the basis is part of a larger one. The others are zero and have no effect."""
    whole: BasisCard | None = None
    """The card of the whole basis, if this is a part of it."""

    @staticmethod
    def rotation(
        kind: str, directions: Float[Tensor, "held width"], mean: Float[Tensor, " width"] | None = None
    ) -> Basis:
        """Orthonormal directions as rows. The coordinates are those of the activation's distance from `mean`."""
        centre = directions.new_zeros(directions.shape[1]) if mean is None else mean
        return Basis(kind, directions.T.contiguous(), directions, -(directions @ centre))

    @property
    def width(self) -> int:
        """The width of the site."""
        return self.encoder.shape[0]

    @property
    def coordinates(self) -> int:
        """The number of units."""
        return self.encoder.shape[1] if self.whole is None else self.whole.coordinates

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the numbers of the whole basis."""
        if self.whole is not None:
            return self.whole.fingerprint
        digest = hashlib.sha256(f"{self.activation} {self.top_k}".encode())
        for array in self._arrays().values():
            digest.update(f"{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:16]

    def card(self) -> BasisCard:
        """What an intervention's card says about the basis."""
        return self.whole or BasisCard(
            kind=self.kind,
            coordinates=self.coordinates,
            fingerprint=self.fingerprint,
            activation=self.activation,
            top_k=self.top_k,
        )

    def to(self, device: torch.device | str) -> Basis:
        """The basis on a device."""
        if self.encoder.device == torch.device(device):
            return self
        moved: dict[str, Any] = {
            name: t.to(device) for name, t in vars(self).items() if isinstance(t, Tensor)
        }
        return replace(self, **moved)

    # -- coordinates --------------------------------------------------------------------------------------------

    def encode(
        self, h: Float[Tensor, "*rows width"], columns: Int[Tensor, " columns"] | None = None
    ) -> Float[Tensor, "*rows columns"]:
        """The coordinates of an activation: all of them, or some columns."""
        held, known = self._held(columns)
        if self.activation == "topk":
            z = self._largest(h @ self.encoder.to(h.dtype) + self.bias.to(h.dtype))
            z = z if held is None else z[..., held]
        else:
            encoder, bias = self._chosen(held, self.encoder.T, self.bias)
            z = self._activated(h @ encoder.T.to(h.dtype) + bias.to(h.dtype), held)
        if known is not None:
            return z * known
        if self.units is None or columns is not None:
            return z
        return z.new_zeros(*z.shape[:-1], self.coordinates).index_copy(-1, self.units, z)

    def decode(
        self, change: Float[Tensor, "*rows columns"], columns: Int[Tensor, " columns"] | None = None
    ) -> Float[Tensor, "*rows width"]:
        """The change of the activation that a change of the coordinates makes."""
        held, known = self._held(columns)
        if known is not None:
            change = change * known
        elif self.units is not None and columns is None:
            change = change[..., self.units]
        (decoder,) = self._chosen(held, self.decoder)
        return change @ decoder.to(change.dtype)

    def _largest(self, before: Float[Tensor, "*rows held"]) -> Float[Tensor, "*rows held"]:
        """The activation topk. A coordinate competes with all others, whichever are wanted."""
        with torch.no_grad():
            least = before.topk(min(self.top_k, before.shape[-1]), -1).values[..., -1:]
        return before.relu() * (before >= least)

    def _activated(
        self, before: Float[Tensor, "*rows columns"], held: Tensor | None
    ) -> Float[Tensor, "*rows columns"]:
        if self.activation == "none":
            return before
        if self.activation == "jumprelu":
            assert self.threshold is not None
            (threshold,) = self._chosen(held, self.threshold)
            return before.relu() * (before > threshold.to(before.dtype))
        return before.relu()

    def _held(self, columns: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """Where the columns are among the held coordinates, and which of them are held at all (None: all of them)."""
        if self.units is None or columns is None:
            return columns, None
        place = torch.full((self.coordinates,), -1, device=self.units.device)
        place[self.units] = torch.arange(len(self.units), device=self.units.device)
        at = place[columns]
        return at.clamp(min=0), at >= 0

    @staticmethod
    def _chosen(held: Tensor | None, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tensors if held is None else tuple(tensor[held] for tensor in tensors)

    # -- on disk ------------------------------------------------------------------------------------------------

    def stored(self, units: Sequence[int] | None = None) -> StoredBasis:
        """The basis for a file. With `units`, only what these coordinates need: with the activation topk, a coordinate
        depends on all others, and the whole basis is stored."""
        arrays = self._arrays()
        if units is not None and self.activation != "topk" and self.units is None:
            chosen = sorted(set(units))
            arrays = {
                name: array[:, chosen] if name == "encoder" else array[chosen]
                for name, array in arrays.items()
            }
            arrays["units"] = np.array(chosen, dtype=np.int64)
        elif self.units is not None:
            arrays["units"] = self.units.cpu().numpy()
        return StoredBasis(self.card(), arrays)

    @staticmethod
    def of(stored: StoredBasis, device: torch.device | str = "cpu") -> Basis:
        """The basis of a file."""
        card = stored.card
        tensors = {name: torch.tensor(np.asarray(array)) for name, array in stored.arrays.items()}
        units = tensors.pop("units", None)
        floats = {name: tensor.float().to(device) for name, tensor in tensors.items()}
        return Basis(
            card.kind,
            **floats,
            activation=card.activation,
            top_k=card.top_k,
            units=None if units is None else units.long().to(device),
            whole=card,
        )

    def _arrays(self) -> dict[str, np.ndarray]:
        tensors = {name: getattr(self, name) for name in ("encoder", "decoder", "bias", "threshold")}
        return {name: t.detach().float().cpu().numpy() for name, t in tensors.items() if t is not None}


def check_basis(basis: Basis, site: str, width: int, where: str) -> None:
    """Raise PivotalError if a basis does not fit a site, or if it has numbers that are not finite."""
    if basis.width != width:
        raise PivotalError(
            f"The basis {where} has the width {basis.width:,}, but {site} has {width:,}. Use it with its own model."
        )
    for name, array in basis._arrays().items():
        if not np.isfinite(array).all():
            raise PivotalError(f"The {name} in {where} has numbers that are not finite. Download it again.")


def stored_bases(bases: Mapping[str, Basis], units: Sequence[Unit]) -> dict[str, StoredBasis]:
    """What an intervention on some units carries of the model's bases."""
    used = {name: [unit.index for unit in units if unit.site == name] for name in bases}
    return {name: bases[name].stored(indices) for name, indices in used.items() if indices}


# -- bases that are fitted to states ----------------------------------------------------------------------------------


def pca(states: Float[Tensor, "states width"]) -> Basis:
    """The principal components of states, by falling variance. With fewer states than coordinates, the last components
    are an arbitrary completion."""
    mean, directions = components(states)
    return Basis.rotation("pca", directions.float(), mean.float())


def completed(kind: str, first: Float[Tensor, "some width"], states: Float[Tensor, "states width"]) -> Basis:
    """An orthonormal basis that begins with given orthonormal directions. The rest are the principal components of what
    the states have outside them."""
    first = first.double()
    mean, directions = components(states, outside=first)
    return Basis.rotation(kind, torch.cat([first, directions[: -len(first)]]).float(), mean.float())


@torch.no_grad()
def components(
    states: Float[Tensor, "states width"], outside: Float[Tensor, "some width"] | None = None
) -> tuple[Float[Tensor, " width"], Float[Tensor, "width width"]]:
    """The mean and the principal components as rows, in double precision. With `outside`, the states are projected onto
    the complement of some orthonormal directions; these directions come last."""
    if len(states) < 2:
        raise PivotalError(f"A basis is fitted to two states or more, not {len(states)}. Use more pairs.")
    # The singular vectors of the states are more exact than those of the covariance, but wide states take too long.
    rows = states.double()
    mean = rows.mean(0)
    rows = rows - mean
    if outside is not None:
        rows = rows - (rows @ outside.T) @ outside
    covariance = rows.T @ rows / len(rows)
    if outside is not None:  # the lowest variances, even where all others are zero
        covariance = covariance - outside.T @ outside * (1 + covariance.diagonal().sum())
    vectors = torch.linalg.eigh(covariance).eigenvectors
    directions = vectors.T.flip(0)
    # The sign of an eigenvector is arbitrary: its largest entry is made positive.
    largest = directions.gather(1, directions.abs().argmax(1, keepdim=True))
    return mean, directions * torch.where(largest < 0, -1.0, 1.0)
