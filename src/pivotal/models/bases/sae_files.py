"""Sparse autoencoders in the files of other libraries. Five published layouts are read; none of them can hold code.

| layout | files |
|---|---|
| SAELens | `cfg.json`, `sae_weights.safetensors` |
| Gemma Scope | `params.npz` |
| Gemma Scope 2 (Gemma 3) | `config.json`, `params.safetensors` |
| sparsify | `sae.safetensors`, and `cfg.json` |
| Llama Scope | `final.safetensors` (also in `checkpoints/`), and `hyperparams.json` |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.models.bases.basis import Basis
from pivotal.models.bases.files import read_tensors
from pivotal.models.recurrent.folder import read_json
from pivotal.records.basis import Activation

_PICKLES = ("*.pt", "*.pth", "*.bin", "*.pkl", "*.ckpt")

Weights = dict[str, Tensor]
Settings = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ReadSAE:
    """A sparse autoencoder, and the site that its files name; empty if they name none."""

    basis: Basis
    site: str
    layout: str


@dataclass(frozen=True, slots=True)
class _Layout:
    name: str
    weights: tuple[str, ...]
    settings: str
    needs_settings: bool
    convert: Callable[[Weights, Settings, Path], tuple[Basis, str]]


def read_sae(path: str) -> ReadSAE:
    """The autoencoder in a folder (or in the folder of a file). Raises PivotalError if there is none that can be read
    without running code."""
    folder = Path(path)
    folder = folder.parent if folder.is_file() else folder
    if not folder.is_dir():
        raise PivotalError(f"A sparse autoencoder is read from a folder, but there is no folder {path}.")
    for layout in LAYOUTS:
        file = next((folder / name for name in layout.weights if (folder / name).is_file()), None)
        if file is None:
            continue
        settings = _settings(folder, layout)
        try:
            basis, site = layout.convert(read_tensors(file), settings, folder)
        except KeyError as error:
            raise PivotalError(
                f"An autoencoder of {layout.name} has the tensor or the setting {error}, but {folder} lacks it. "
                "Download it again."
            ) from None
        return ReadSAE(basis, site, layout.name)
    if pickles := sorted(file.name for pattern in _PICKLES for file in folder.glob(pattern)):
        raise PivotalError(
            f"pivotal reads autoencoders from files that cannot hold code, but {folder} holds {pickles[0]}, a pickle. "
            "Save its tensors with safetensors, in one of the supported layouts."
        )
    listed = ", ".join(layout.weights[0] for layout in LAYOUTS)
    raise PivotalError(
        f"The folder of an autoencoder holds one of {listed}, but {folder} holds none of them. Name the folder of one "
        "layer."
    )


def _settings(folder: Path, layout: _Layout) -> Settings:
    path = folder / layout.settings
    if not layout.settings or not path.is_file():
        if layout.needs_settings:
            raise PivotalError(
                f"An autoencoder of {layout.name} comes with {layout.settings}, but {folder} has no such file. "
                "Download it as well."
            )
        return {}
    settings = read_json(path)
    if not isinstance(settings, dict):
        raise PivotalError(f"{path} must be a JSON object, but it is not.")
    return settings


# -- layouts ------------------------------------------------------------------------------------------------------


def _saelens(weights: Weights, settings: Settings, folder: Path) -> tuple[Basis, str]:
    """Encoder (width x coordinates); releases before 6 keep the name of the hook beside the sizes."""
    about = {**settings.get("metadata", {}), **settings}
    architecture = str(settings.get("architecture", "standard"))
    activation = str(settings.get("activation_fn", settings.get("activation_fn_str", "relu")))
    if architecture not in ("standard", "jumprelu", "topk", "batchtopk", "matryoshka_batchtopk"):
        raise _unsupported(folder, "architecture", architecture)
    if (normalised := settings.get("normalize_activations") or "none") != "none":
        raise _unsupported(folder, "normalize_activations", normalised)
    encoder, decoder, bias = weights["W_enc"], weights["W_dec"], weights["b_enc"]
    if "scaling_factor" in weights and not torch.allclose(
        weights["scaling_factor"], torch.tensor(1.0), atol=1e-6
    ):
        decoder = decoder * weights["scaling_factor"][:, None]
    if settings.get("rescale_acts_by_decoder_norm"):
        norm = decoder.norm(dim=1)
        encoder, bias, decoder = encoder * norm, bias * norm, decoder / norm[:, None]
    if settings.get("apply_b_dec_to_input", True):
        bias = bias - weights["b_dec"] @ encoder
    site = _site_of_hook(str(about.get("hook_name") or about.get("hook_point") or ""), folder)
    if architecture == "topk" or activation == "topk":
        k = settings["k"] if "k" in settings else settings["activation_fn_kwargs"]["k"]
        return _sae(folder, encoder, decoder, bias, top_k=int(k)), site
    # A batch-top-k autoencoder is saved as a JumpReLU with the threshold of its training.
    threshold = weights["threshold"] if architecture != "standard" else None
    return _sae(folder, encoder, decoder, bias, threshold=threshold), site


def _gemma_scope(weights: Weights, settings: Settings, folder: Path) -> tuple[Basis, str]:
    """The path of a Gemma Scope folder names the layer: `layer_12/width_16k/average_l0_82`."""
    named = re.search(r"layer_(\d+)", folder.resolve().as_posix())
    weights = {name.lower(): tensor for name, tensor in weights.items()}
    basis = _sae(folder, weights["w_enc"], weights["w_dec"], weights["b_enc"], threshold=weights["threshold"])
    # The repositories for the residual stream, the MLPs and the attention have the same folders.
    return basis, f".{named[1]}" if named else ""


def _gemma_3(weights: Weights, settings: Settings, folder: Path) -> tuple[Basis, str]:
    hook = str(settings.get("hf_hook_point_in", ""))
    _check_same_place(folder, hook, settings.get("hf_hook_point_out"))
    if (architecture := settings.get("architecture", "jump_relu")) not in ("jump_relu", "jumprelu"):
        raise _unsupported(folder, "architecture", architecture)
    # An affine skip connection adds the same before and after an edit, so that a difference does without it.
    basis = _sae(folder, weights["w_enc"], weights["w_dec"], weights["b_enc"], threshold=weights["threshold"])
    return basis, _site_of_hook(hook, folder)


def _sparsify(weights: Weights, settings: Settings, folder: Path) -> tuple[Basis, str]:
    """`nn.Linear` stores the encoder as coordinates x width. The name of the folder is that of the hook."""
    _check_same_place(folder, "", "another module" if settings.get("transcode") else "")
    encoder = weights["encoder.weight"].T
    bias = weights["encoder.bias"] - weights["b_dec"] @ encoder
    k = settings.get("k", 32)
    if (activation := settings.get("activation", "topk")) != "topk":
        raise _unsupported(folder, "activation", activation)
    return _sae(folder, encoder, weights["W_dec"], bias, top_k=int(k)), _site_of_hook(
        folder.resolve().name, folder
    )


def _llama_scope(weights: Weights, settings: Settings, folder: Path) -> tuple[Basis, str]:
    """States are scaled to the norm sqrt(width) on average. With `sparsity_include_decoder_norm`, the threshold is
    compared with the activation times the norm of its row of the decoder."""
    hook = str(settings.get("hook_point_in", ""))
    _check_same_place(folder, hook, settings.get("hook_point_out"))
    encoder, decoder = weights["encoder.weight"].T, weights["decoder.weight"].T
    bias, width = weights["encoder.bias"], encoder.shape[0]
    norm = (
        decoder.norm(dim=1) if settings.get("sparsity_include_decoder_norm", True) else torch.ones(len(bias))
    )
    scale = 1.0
    if (normalised := settings.get("norm_activation", "dataset-wise")) == "dataset-wise":
        scale = width**0.5 / float(settings["dataset_average_activation_norm"]["in"])
    elif normalised not in ("none", "inference"):
        raise _unsupported(folder, "norm_activation", normalised)
    if settings.get("apply_decoder_bias_to_pre_encoder"):
        bias = bias - weights["decoder.bias"] @ encoder
    encoder, decoder = encoder * scale, decoder / scale
    site = _site_of_hook(hook, folder)
    act = str(settings.get("act_fn", "jumprelu")).lower()
    if act == "topk":
        # Coordinates compete by the norm of what they write.
        return _sae(
            folder, encoder * norm, decoder / norm[:, None], bias * norm, top_k=int(settings["top_k"])
        ), site
    if act not in ("jumprelu", "relu"):
        raise _unsupported(folder, "act_fn", act)
    threshold = float(settings.get("jump_relu_threshold", 0.0)) if act == "jumprelu" else 0.0
    return _sae(folder, encoder, decoder, bias, threshold=threshold / norm), site


LAYOUTS = (
    _Layout("SAELens", ("sae_weights.safetensors",), "cfg.json", True, _saelens),
    _Layout("Gemma Scope", ("params.npz",), "", False, _gemma_scope),
    _Layout("Gemma Scope 2", ("params.safetensors",), "config.json", True, _gemma_3),
    _Layout("sparsify", ("sae.safetensors",), "cfg.json", False, _sparsify),
    _Layout(
        "Llama Scope",
        ("final.safetensors", "checkpoints/final.safetensors"),
        "hyperparams.json",
        True,
        _llama_scope,
    ),
)
"""SAELens first: its folders may also hold a `config.json`."""


def _sae(
    folder: Path,
    encoder: Tensor,
    decoder: Tensor,
    bias: Tensor,
    *,
    threshold: Tensor | None = None,
    top_k: int = 0,
) -> Basis:
    """Raises PivotalError if the tensors do not fit together."""
    shape = tuple(encoder.shape)
    parts = (
        ("decoder", decoder, shape[::-1]),
        ("encoder's bias", bias, shape[1:]),
        ("threshold", threshold, shape[1:]),
    )
    for name, tensor, wanted in parts:
        if tensor is not None and (len(shape) != 2 or tuple(tensor.shape) != wanted):
            raise PivotalError(
                f"The tensors of an autoencoder must fit together, but in {folder} the encoder has the shape {shape} "
                f"and the {name} {tuple(tensor.shape)}. Download it again."
            )
    if top_k:
        return Basis("sae", encoder.contiguous(), decoder.contiguous(), bias, "topk", top_k=top_k)
    activation: Activation = "relu" if threshold is None else "jumprelu"
    return Basis("sae", encoder.contiguous(), decoder.contiguous(), bias, activation, threshold)


def _check_same_place(folder: Path, read: str, written: str | None) -> None:
    if written and written != read:
        raise PivotalError(
            f"A basis encodes and decodes the same site, but {folder} holds a transcoder, which writes to {written}."
        )


def _unsupported(folder: Path, setting: str, value: object) -> PivotalError:
    return PivotalError(
        f"An autoencoder with {setting} {value!r} is not supported, and {folder} holds one. Supported are ReLU, "
        "JumpReLU and top-k autoencoders of states that are not normalised."
    )


_HOOKS = (
    (r"blocks\.(\d+)\.hook_resid_post", "resid.{}", 0),
    (r"blocks\.(\d+)\.hook_resid_pre", "resid.{}", -1),
    (r"blocks\.(\d+)\.mlp\.hook_post", "mlp.{}", 0),
    (r"blocks\.(\d+)\.attn\.hook_z", "attn.{}", 0),
    (r"(?:model\.)?(?:layers|h)\.(\d+)(?:\.output)?", "resid.{}", 0),
    (r"(?:model\.)?layers\.(\d+)\.self_attn\.o_proj\.input", "attn.{}", 0),
    (r"(?:model\.)?layers\.(\d+)\.mlp\.down_proj\.input", "mlp.{}", 0),
)
"""The names that TransformerLens and transformers give to our sites. The input of a block is the output of the block
before it."""
_ELSEWHERE = re.compile(r"(?:blocks|layers|h)\.\d+\..+|hook_embed")
"""A place in a model that is none of our sites."""


def _site_of_hook(hook: str, folder: Path) -> str:
    for pattern, site, shift in _HOOKS:
        if (match := re.fullmatch(pattern, hook)) is not None:
            if int(match[1]) + shift < 0:
                raise PivotalError(f"pivotal has no site before the first block, but {folder} is for {hook}.")
            return site.format(int(match[1]) + shift)
    if _ELSEWHERE.search(hook):
        raise PivotalError(
            f"An autoencoder must be for a site of the model (resid, mlp, attn), but {folder} is for {hook}, which is "
            "none. Use one that was trained on the residual stream."
        )
    return ""
