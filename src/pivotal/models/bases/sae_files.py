"""Sparse autoencoders in files that cannot hold code: as SAELens saves them, or as the plain arrays of Gemma Scope.

| layout | files |
|---|---|
| SAELens | `cfg.json`, `sae_weights.safetensors` |
| plain arrays | `params.npz` with `W_enc`, `W_dec`, `b_enc` and, for a JumpReLU, `threshold` |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from pivotal.errors import PivotalError, in_short
from pivotal.models.bases.basis import Basis
from pivotal.models.bases.files import read_tensors
from pivotal.models.recurrent.folder import read_json
from pivotal.models.tensors import UNREADABLE

_SETTINGS, _SAELENS, _PLAIN = "cfg.json", "sae_weights.safetensors", "params.npz"


def read_sae(path: str) -> tuple[Basis, str]:
    """The autoencoder in a folder, and the site that its files name; empty if they name none."""
    folder = Path(path)
    try:
        if (folder / _SAELENS).is_file() and (folder / _SETTINGS).is_file():
            return _saelens(read_tensors(folder / _SAELENS), read_json(folder / _SETTINGS), folder)
        if (folder / _PLAIN).is_file():
            plain = read_tensors(folder / _PLAIN)
            return _sae(folder, plain["W_enc"], plain["W_dec"], plain["b_enc"], plain.get("threshold")), ""
    except KeyError as error:
        raise PivotalError(
            f"An autoencoder has the tensor or the setting {error}, but {folder} lacks it. Download it again."
        ) from None
    except UNREADABLE as error:
        raise PivotalError(
            f"The tensors and settings of an autoencoder must fit together: check {folder} ({in_short(error)})."
        ) from None
    raise PivotalError(
        f"The folder of an autoencoder holds {_SETTINGS} and {_SAELENS} (SAELens) or {_PLAIN}, but "
        f"{folder} holds neither. Load the autoencoder with SAELens and save it with save_model."
    )


def _saelens(weights: Mapping[str, Tensor], settings: Mapping[str, Any], folder: Path) -> tuple[Basis, str]:
    """Releases before 6 keep the name of the hook beside the sizes."""
    about = {**settings.get("metadata", {}), **settings}
    architecture = settings.get("architecture", "standard")
    if architecture not in ("standard", "jumprelu", "topk", "batchtopk", "matryoshka_batchtopk"):
        raise _unsupported(folder, "architecture", architecture)
    if (normalised := settings.get("normalize_activations") or "none") != "none":
        raise _unsupported(folder, "normalize_activations", normalised)
    encoder, decoder, bias = weights["W_enc"], weights["W_dec"], weights["b_enc"]
    if "scaling_factor" in weights:
        decoder = decoder * weights["scaling_factor"][:, None]
    if settings.get("rescale_acts_by_decoder_norm"):
        norm = decoder.norm(dim=1)
        encoder, bias, decoder = encoder * norm, bias * norm, decoder / norm[:, None]
    if settings.get("apply_b_dec_to_input", True):
        bias = bias - weights["b_dec"] @ encoder
    site = _site_of_hook(str(about.get("hook_name", "")), folder)
    if "topk" in (architecture, settings.get("activation_fn", settings.get("activation_fn_str"))):
        k = settings["k"] if "k" in settings else settings["activation_fn_kwargs"]["k"]
        if int(k) < 1:
            raise ValueError(f"k must be 1 or more, but it is {k}")
        return _sae(folder, encoder, decoder, bias, top_k=int(k)), site
    # A batch-top-k autoencoder is saved as a JumpReLU with the threshold of its training.
    threshold = weights["threshold"] if architecture != "standard" else None
    return _sae(folder, encoder, decoder, bias, threshold), site


def _sae(
    folder: Path,
    encoder: Tensor,
    decoder: Tensor,
    bias: Tensor,
    threshold: Tensor | None = None,
    top_k: int = 0,
) -> Basis:
    """Raises PivotalError if the tensors do not fit together."""
    shapes = [
        tuple(tensor.shape) for tensor in (encoder, decoder, bias, bias if threshold is None else threshold)
    ]
    if shapes[1:] != [shapes[0][::-1], shapes[0][1:], shapes[0][1:]] or encoder.ndim != 2:
        raise PivotalError(f"The arrays of an autoencoder must fit together; in {folder} they are {shapes}.")
    encoder, decoder = encoder.contiguous(), decoder.contiguous()
    if top_k:
        return Basis("sae", encoder, decoder, bias, "topk", top_k=top_k)
    return Basis("sae", encoder, decoder, bias, "relu" if threshold is None else "jumprelu", threshold)


def _unsupported(folder: Path, setting: str, value: object) -> PivotalError:
    return PivotalError(
        f"pivotal does not support autoencoders with {setting} {value!r}, such as the one in {folder}. It supports "
        "ReLU, JumpReLU and top-k autoencoders of states that are not normalised."
    )


_HOOKS = {
    "hook_resid_post": ("resid", 0),
    "hook_resid_pre": ("resid", -1),
    "mlp.hook_post": ("mlp", 0),
    "attn.hook_z": ("attn", 0),
}
"""The kinds of our sites by the names that TransformerLens gives them. The input of a block is the output of the block
before it."""


def _site_of_hook(hook: str, folder: Path) -> str:
    if (match := re.fullmatch(r"blocks\.(\d{1,9})\.(.+)", hook)) is None:
        return ""
    kind, shift = _HOOKS.get(match[2], ("", 0))
    if not kind or int(match[1]) + shift < 0:
        raise PivotalError(
            f"An autoencoder must be for a site of the model (resid, mlp, attn), but {folder} is for {hook}."
        )
    return f"{kind}.{int(match[1]) + shift}"
