"""Bases in files: the folders that `pivotal fit-basis` writes, and rotations from anywhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from safetensors import safe_open
from torch import Tensor

from pivotal.errors import PivotalError, in_short
from pivotal.files import disk
from pivotal.models.bases.basis import Basis
from pivotal.records import serial
from pivotal.records.basis import BasisRecord, read_bases, write_bases

BASIS, ARRAYS = "basis.json", "basis.safetensors"

_ORTHONORMAL = 1e-3
"""The largest error of a product of two directions. Files in half precision have errors of this size."""


def write_folder(folder: Path, basis: Basis, record: BasisRecord) -> None:
    """Write basis.safetensors and basis.json. The record is removed first and written last, so that a folder with a
    record is complete."""
    with disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / BASIS).unlink(missing_ok=True)
    write_bases(folder / ARRAYS, {"basis": basis.stored()})
    serial.write(folder / BASIS, record)


def read_folder(path: str, site: str) -> Basis:
    """The basis in a folder of `pivotal fit-basis`. Raises PivotalError if it is of another site."""
    folder = Path(path)
    missing = (
        f"@pca:FOLDER names a folder that `pivotal fit-basis` wrote, but there is no {folder / BASIS}. "
        f"Leave the folder out to fit the basis to the training pairs."
    )
    record = serial.read(folder / BASIS, BasisRecord, missing=missing)
    if record.site != site:
        raise PivotalError(f"{path} is a basis of {record.site}, not of {site}. Fit one for {site}.")
    basis = replace(Basis.of(read_bases(folder / ARRAYS, {"basis": record.basis})["basis"]), whole=None)
    if basis.fingerprint != record.basis.fingerprint:
        raise PivotalError(f"{folder / ARRAYS} does not belong to the {BASIS} beside it. Fit it again.")
    return basis


def read_rotation(path: str, site: str, width: int) -> Basis:
    """Orthonormal directions, one per row: the only matrix in a safetensors file (and its tensor `mean`, if there is
    one), or a .npy file."""
    if not Path(path).is_file():
        raise PivotalError(f"A rotation is read from a file, but there is no file {path}.")
    tensors = read_tensors(Path(path))
    mean = tensors.pop("mean", None)
    matrices = [tensor for tensor in tensors.values() if tensor.ndim == 2]
    if len(matrices) != 1:
        raise PivotalError(f"A rotation is one matrix with a direction per row; {path} has {len(matrices)}.")
    (directions,) = matrices
    if directions.shape[1] != width or not 0 < len(directions) <= width:
        raise PivotalError(
            f"{path} must have 1 to {width} rows of {width} numbers for {site}, not {tuple(directions.shape)}."
        )
    if mean is not None and mean.shape != (width,):
        raise PivotalError(f"The mean in {path} must have {width} numbers, not shape {tuple(mean.shape)}.")
    product = directions.double() @ directions.double().T
    worst = float((product - torch.eye(len(directions), dtype=torch.float64)).abs().max())
    if not worst <= _ORTHONORMAL:
        raise PivotalError(
            f"The rows of {path} are not orthonormal (off by {worst:.2g}). Make them so, e.g. with torch.linalg.qr."
        )
    return Basis.rotation("rotation", directions, mean)


def read_tensors(path: Path) -> dict[str, Float[Tensor, "..."]]:
    """The tensors of a .safetensors, .npz or .npy file. Raises PivotalError for anything that can hold code."""
    try:
        if path.suffix == ".npy":
            return {"array": torch.tensor(np.load(path, allow_pickle=False)).float()}
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                return {name: torch.tensor(arrays[name]).float() for name in arrays.files}
        if path.suffix == ".safetensors":
            with safe_open(path, framework="pt") as file:
                return {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118 - no mapping
    except Exception as error:  # a damaged file makes numpy and safetensors raise errors of all kinds
        raise PivotalError(
            f"{path} cannot be read ({in_short(error)}). Download it again. It must hold arrays of numbers only."
        ) from None
    raise PivotalError(
        f"Tensors are read from .safetensors, .npz and .npy files, but {path} is not one. Other formats can hold code."
    )
