"""Checks that the parts of a recurrent model belong together, and its fingerprint."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from pivotal.errors import PivotalError, did_you_mean
from pivotal.models.recurrent.cells import CELLS


def check_parts(cell: str, words: Sequence[str], weights: dict[str, Tensor]) -> None:
    """Raise PivotalError if cell, words and weights do not fit together. Some misfits would run, with wrong results."""
    if cell not in CELLS:
        raise PivotalError(f"There is no recurrent cell {cell!r}." + did_you_mean(cell, CELLS))
    needed = ("encoder.weight", "rnn.weight_ih_l0", "rnn.weight_hh_l0", "decoder.weight")
    missing = [name for name in needed if name not in weights]
    if missing:
        raise PivotalError(
            f"A recurrent model needs the tensors {', '.join(needed)}, but {', '.join(missing)} is missing."
        )
    for name in ("encoder.weight", "decoder.weight"):
        if len(weights[name]) != len(words):
            raise PivotalError(
                f"A model of {len(words)} words needs {len(words)} rows of {name}, but there are {len(weights[name])}."
            )
    if len(set(words)) < len(words):
        twice = next(word for word, count in Counter(words).items() if count > 1)
        raise PivotalError(f"The words of a vocabulary must differ, but {twice!r} occurs twice.")
    broken = [name for name, tensor in weights.items() if not bool(tensor.isfinite().all())]
    if broken:
        raise PivotalError(f"Weights must be finite numbers, but {broken[0]} has some that are not.")
    hidden, inputs, level = weights["decoder.weight"].shape[1], weights["encoder.weight"].shape[1], 0
    while f"rnn.weight_ih_l{level}" in weights:
        rows = CELLS[cell].gates * hidden
        for side, shape in (("ih", (rows, inputs)), ("hh", (rows, hidden))):
            found = weights.get(f"rnn.weight_{side}_l{level}", torch.empty(0)).shape
            if tuple(found) != shape:
                raise PivotalError(
                    f"rnn.weight_{side}_l{level} of a {cell} with {hidden} units must have the shape {shape}, "
                    f"but it has {tuple(found)}."
                )
        inputs, level = hidden, level + 1
    check_layers(weights)


def check_layers(names: Collection[str]) -> None:
    """Raise PivotalError unless the recurrent tensors are those of layers 0 to n - 1, each with both biases or none."""
    layers = 0
    while f"rnn.weight_ih_l{layers}" in names:
        layers += 1
    known = {
        f"rnn.{kind}_{side}_l{i}"
        for kind in ("weight", "bias")
        for side in ("ih", "hh")
        for i in range(layers)
    }
    strange = sorted(name for name in names if name.startswith("rnn.") and name not in known)
    if strange:
        raise PivotalError(
            f"The recurrent layers have the numbers 0 to {layers - 1} (rnn.weight_ih_l0 …), but there is also "
            f"{strange[0]}. A layer between is missing, or the model is of another kind."
        )
    for i in range(layers):
        ours, other = f"rnn.bias_ih_l{i}", f"rnn.bias_hh_l{i}"
        if (ours in names) != (other in names):
            raise PivotalError(
                f"A layer has both biases or neither, but only one of {ours} and {other} is there."
            )


def fingerprint_of(weights: dict[str, Tensor], words: Sequence[str]) -> str:
    """A digest of the weights and the vocabulary."""
    digest = hashlib.sha256("\n".join(words).encode())
    for key in sorted(weights):
        digest.update(key.encode())
        digest.update(weights[key].detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]
