"""The weights of a recurrent model: from torch modules, as 8-bit integers, and whether they fit together."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor, nn

from pivotal.errors import PivotalError, did_you_mean
from pivotal.models.recurrent.cells import CELLS


def weights_of(encoder: Any, rnn: Any, decoder: Any) -> tuple[str, dict[str, Tensor]]:
    """The cell and copies of the weights, with the names of `RecurrentLM`, of an embedding, a recurrent module and an
    output layer. PivotalError says what to give instead of something else."""
    parts = (encoder, nn.Embedding), (rnn, nn.LSTM | nn.GRU | nn.RNN), (decoder, nn.Linear)
    if wrong := [type(module).__name__ for module, kind in parts if not isinstance(module, kind)]:
        raise PivotalError(
            "A recurrent model is made of an nn.Embedding, an nn.LSTM, nn.GRU or nn.RNN, and an nn.Linear, but one of "
            f"the modules is a {wrong[0]}. Copy its weights to such a module, or use pivotal.models.ModuleLM."
        )
    if rnn.bidirectional:
        raise PivotalError("A language model reads from left to right, but this module is bidirectional.")
    if rnn.proj_size:
        raise PivotalError("LSTMs with a projection (proj_size) are not supported. Use one without.")
    if rnn.mode == "RNN_RELU":
        raise PivotalError("A plain RNN must use tanh, but this one uses relu.")
    weights = {f"rnn.{name}": weight for name, weight in rnn.state_dict().items()}
    weights |= {"encoder.weight": encoder.weight, "decoder.weight": decoder.weight}
    if decoder.bias is not None:
        weights["decoder.bias"] = decoder.bias
    weights = {name: weight.detach().clone() for name, weight in weights.items()}
    if encoder.max_norm is not None:
        weights["encoder.weight"].renorm_(encoder.norm_type, 0, encoder.max_norm)
    return {"LSTM": "lstm", "GRU": "gru"}.get(rnn.mode, "rnn"), weights


def check_parts(cell: str, words: Sequence[str], weights: Mapping[str, Tensor]) -> None:
    """Raise PivotalError if cell, words and weights do not fit together. Some misfits would run, with wrong results."""
    if cell not in CELLS:
        raise PivotalError(f"There is no recurrent cell {cell!r}." + did_you_mean(cell, CELLS))
    if twice := [word for word, count in Counter(words).items() if count > 1]:
        raise PivotalError(f"The words of a vocabulary must differ, but {twice[0]!r} occurs twice.")
    check_layers(weights)
    for name, tensor in weights.items():
        parts = torch.atleast_1d(tensor).split(4096)  # `isfinite` copies what it is given
        if not tensor.numel() or not all(bool(part.isfinite().all()) for part in parts):
            wrong = "some that are not" if tensor.numel() else "none"
            raise PivotalError(f"Weights must be finite numbers, but {name} has {wrong}.")
    hidden, inputs = (weights[f"{part}.weight"].shape[1:].numel() for part in ("decoder", "encoder"))
    rows = CELLS[cell].gates * hidden
    shapes: dict[str, tuple[int, ...]] = {"encoder.weight": (len(words), inputs)}
    shapes["decoder.weight"] = len(words), hidden
    for level in range(layers_of(weights)):
        shapes[f"rnn.weight_ih_l{level}"] = rows, hidden if level else inputs
        shapes[f"rnn.weight_hh_l{level}"] = rows, hidden
    shapes |= {name: (len(words) if name == "decoder.bias" else rows,) for name in weights if "bias" in name}
    for name, shape in shapes.items():
        if weights[name].shape != shape:
            raise PivotalError(
                f"{name} of this {cell} must have the shape {shape}, but has {tuple(weights[name].shape)}."
            )


def layers_of(names: Collection[str]) -> int:
    """The number of recurrent layers of some weights."""
    return sum(str(name).startswith("rnn.weight_ih_l") for name in names)


def check_layers(names: Collection[str]) -> None:
    """Raise PivotalError unless the tensors are those of an encoder, a decoder and the recurrent layers 0 to n - 1."""
    there, layers = set(map(str, names)), range(max(1, layers_of(names)))
    needed = {f"rnn.weight_{side}_l{i}" for side in ("ih", "hh") for i in layers}
    needed |= {"encoder.weight", "decoder.weight"}
    missing = sorted(needed - there)
    other = sorted(there - needed - {name.replace("weight", "bias") for name in needed - {"encoder.weight"}})
    if missing or other:
        wrong = [f"{name} is missing" for name in missing[:1]] + [
            f"there is also {name[:60]}" for name in other[:1]
        ]
        raise PivotalError(
            f"A recurrent model has encoder.weight, decoder.weight and the layers 0 to {len(layers) - 1} "
            f"(rnn.weight_ih_l0 …), but {' and '.join(wrong)}. A layer is missing, or it is another kind of model."
        )


def quantised(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Store every matrix `X` as `X.int8` and `X.scale`, one scale per row; vectors stay as they are. That is a quarter
    of the size of float32. Weights are rounded by at most 1/254 of the largest weight of the row."""
    tensors = {}
    for name, weight in weights.items():
        if weight.dim() != 2:
            tensors[name] = weight
            continue
        scale = weight.abs().amax(1).clamp_min(1e-8) / 127
        tensors[f"{name}.int8"] = (weight / scale[:, None]).round().to(torch.int8)
        tensors[f"{name}.scale"] = scale
    return tensors


def dequantised(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of `quantised`, up to rounding. A decoder that is missing is the encoder."""
    weights = {}
    for key, tensor in tensors.items():
        if key.endswith(".int8"):
            name = key.removesuffix(".int8")
            scale = tensors.get(f"{name}.scale")
            if scale is None:
                raise PivotalError(f"Every int8 row needs a scale, but {key} has no {name}.scale.")
            if tensor.ndim != 2 or scale.shape != tensor.shape[:1]:
                raise PivotalError(
                    f"{key} needs one scale for each row, but {name}.scale has the shape {tuple(scale.shape)}."
                )
            weights[name] = tensor.float().mul_(scale.float()[:, None])  # no second copy of a large matrix
        elif not key.endswith(".scale"):
            weights[key] = tensor
    if "encoder.weight" in weights:
        weights.setdefault("decoder.weight", weights["encoder.weight"])
    return weights


def fingerprint_of(weights: Mapping[str, Tensor], words: Sequence[str]) -> str:
    """The digest of the files that a model folder with this content has, so that a saved model is the same model."""
    vocabulary = "".join(f"{word}\n" for word in words).encode()
    return hashlib.sha256(vocabulary + save(stored(weights))).hexdigest()[:16]


def stored(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a model folder. A tied decoder is omitted."""
    tensors = {name: tensor.detach().to("cpu").contiguous() for name, tensor in weights.items()}
    if "decoder.weight" in tensors and torch.equal(tensors["encoder.weight"], tensors["decoder.weight"]):
        del tensors["decoder.weight"]
    return tensors
