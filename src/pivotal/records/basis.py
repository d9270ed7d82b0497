"""A basis as it is stored: a card for card.json, and arrays for a safetensors file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from pivotal.errors import PivotalError, in_short
from pivotal.files import disk, write_atomically
from pivotal.records import serial

Activation = Literal["none", "relu", "jumprelu", "topk"]
"""What is applied to the products with the encoder: nothing for a linear basis, else the function of the sparse
autoencoder."""

_ARRAYS = ("encoder", "decoder", "bias", "threshold", "units")


class BasisCard(serial.Record, frozen=True, kw_only=True):
    """A basis without its arrays."""

    kind: str
    """How the basis was made, such as pca or sae."""
    coordinates: int
    """The number of coordinates of the whole basis."""
    fingerprint: str
    """Identifies the whole basis."""
    activation: Activation = "none"
    top_k: int = 0
    """For the activation topk: how many coordinates may differ from zero."""


class BasisRecord(serial.Record, frozen=True, kw_only=True, tag_field="format", tag="pivotal-basis-1"):
    """basis.json: a fitted basis without its arrays, which are in basis.safetensors in the same folder."""

    model: str
    """The name of the model."""
    model_fingerprint: str
    site: str
    """The site whose states the basis was fitted to."""
    corpus: str
    """The text that the model read."""
    states: int
    """The number of states."""
    basis: BasisCard


@dataclass(frozen=True, eq=False)
class StoredBasis:
    """A basis, or the part of it that an intervention needs.

    `arrays` has the encoder (width x coordinates), the decoder (coordinates x width), the bias and, for the activation
    jumprelu, the threshold. With `units`, the arrays hold only these coordinates.
    """

    card: BasisCard
    arrays: Mapping[str, np.ndarray]


@contextmanager
def open_arrays(path: Path) -> Iterator[Any]:
    """A safetensors file, open for reading within the block. PivotalError if it is missing or damaged."""
    try:
        with safe_open(path, framework="np") as file:
            yield file
    except FileNotFoundError:
        raise PivotalError(f"{path} is missing. Copy the whole folder again.") from None
    except (SafetensorError, OSError, TypeError, ValueError, MemoryError) as error:
        raise PivotalError(f"{path} is damaged ({in_short(error)}). Copy it again.") from None


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write a safetensors file. Its writer copies memory as it lies, so an array in another order would be garbled."""
    rows = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    with disk(path):
        write_atomically(path, lambda partial: save_file(rows, partial))


def write_bases(path: Path, bases: Mapping[str, StoredBasis]) -> None:
    """Write the arrays of several bases to one file. The cards are stored elsewhere."""
    named = {f"{site}/{name}": array for site, basis in bases.items() for name, array in basis.arrays.items()}
    write_arrays(path, named)


def read_bases(path: Path, cards: Mapping[str, BasisCard]) -> dict[str, StoredBasis]:
    """The bases that `write_bases` wrote."""
    with open_arrays(path) as file:
        names = list(file.keys())
        bases = {
            site: StoredBasis(card, {name: file.get_tensor(f"{site}/{name}") for name in here})
            for site, card in cards.items()
            for here in [[name for name in _ARRAYS if f"{site}/{name}" in names]]
        }
    for site, basis in bases.items():
        _check(path, site, basis)
    return bases


def _check(path: Path, site: str, basis: StoredBasis) -> None:
    """Raise PivotalError if the arrays do not fit together or do not fit the card."""
    arrays, card = basis.arrays, basis.card
    units = arrays.get("units")
    held = card.coordinates if units is None else units.size
    width = (*arrays["encoder"].shape, 0)[0] if "encoder" in arrays else 0
    shapes = {"encoder": (width, held), "decoder": (held, width), "bias": (held,)}
    if card.activation == "jumprelu":
        shapes["threshold"] = (held,)
    for name, shape in shapes.items():
        array = arrays.get(name)
        if array is None or array.shape != shape or not np.isfinite(array).all():
            given = "it has none" if array is None else f"its shape is {array.shape}"
            raise PivotalError(
                f"{path} must hold {site}/{name}, finite numbers in the shape {shape} ({given}). It is damaged."
            )
    if units is not None and (
        units.ndim != 1 or units.dtype.kind not in "iu" or ((units < 0) | (units >= card.coordinates)).any()
    ):
        raise PivotalError(f"{site}/units in {path} must be coordinates from 0 to {card.coordinates - 1}.")
