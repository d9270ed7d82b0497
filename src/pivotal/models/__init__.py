"""Load models by name. One file in this folder adds a kind of model."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any, get_args

import torch
from torch import nn

from pivotal.errors import PivotalError, check_whole, did_you_mean, in_short
from pivotal.files import suffix_of
from pivotal.models.base import LanguageModel, ModelSource
from pivotal.models.hub import downloads
from pivotal.models.in_memory import wrapped
from pivotal.models.intervened import IntervenedModel
from pivotal.models.module import ModuleLM
from pivotal.models.recurrent.lm import RecurrentLM
from pivotal.models.transformers.lm import TransformersLM
from pivotal.questions.phenomena import phenomenon_names
from pivotal.questions.question import Dtype
from pivotal.questions.rows import SUFFIXES
from pivotal.registry import Registry

SOURCES: Registry[ModelSource] = Registry("models", __name__, ModelSource)  # type: ignore[type-abstract]

DTYPES = get_args(Dtype)
"""The number formats that a model may compute in. Half precision is for GPUs."""

__all__ = ["IntervenedModel", "LanguageModel", "ModelSource", "ModuleLM", "RecurrentLM", "TransformersLM"]


def load_model(
    spec: str | Path | nn.Module | LanguageModel,
    tokenizer: Any = None,
    *,
    name: str | None = None,
    device: str | None = None,
    dtype: str | torch.dtype | None = None,
    priming: str | None = None,
    batch_nodes: int | None = None,
    download: bool = True,
) -> LanguageModel:
    """Load a model by name (`pivotal list models`), by the path of its folder or file, or as hf:ORG/NAME; or take one
    that is in memory: a Hugging Face model with its tokenizer, or a recurrent module with its words.

    `name` is what results call a model in memory. `dtype` is the number format that a model computes in, by default
    float32, and `priming` is the text that it reads before every sentence, by default its own. `batch_nodes` is the
    most nodes, times runs, that are computed at once; it bounds the memory of models that support it. `download=False`
    loads only what is on this machine. A Hugging Face model in memory is used as it is, where it is, in its own number
    format; it is put into evaluation mode, and its weights no longer require gradients. A recurrent module is copied,
    to `device` and in `dtype` if they are given.
    """
    # Saturated gates produce denormal numbers, which a CPU handles fifteen times slower than zero.
    torch.set_flush_denormal(True)
    if isinstance(spec, LanguageModel):
        others = tokenizer, name, dtype, priming, batch_nodes
        stays = device in (None, str(spec.device), spec.device.type)
        if not stays or any(given is not None for given in others):
            raise PivotalError(
                f"{spec.name} is loaded already and keeps its settings. Leave out those that were given with it."
            )
        return spec
    if not isinstance(spec, nn.Module | str | os.PathLike) or not str(spec).strip():
        what = "the name is empty" if isinstance(spec, str) else f"this is a {type(spec).__name__}"
        raise PivotalError(
            f"A model is a name, a path or a torch module, but {what}. Give it first, then its tokenizer or words."
        )
    if not isinstance(spec, nn.Module) and (tokenizer is not None or name is not None):
        raise PivotalError(f"{spec} has its own words and name. Do not give others with it.")
    if batch_nodes is not None:
        check_whole(1, batch_nodes=batch_nodes)
    own = next((str(w.device) for w in spec.parameters()), None) if isinstance(spec, nn.Module) else None
    here = device_named(device or own)
    how: Any = {"device": here, "dtype": _dtype(dtype, here), "priming": priming}
    if isinstance(spec, nn.Module):
        model = wrapped(spec, tokenizer, name=name, **how)
        model.in_memory = True
        if (device and model.device.type != here.type) or how["dtype"] not in (None, model.dtype):
            raise PivotalError(
                f"A Transformers model in memory stays on {model.device} in {model.dtype}, but {here} and "
                f"{how['dtype'] or model.dtype} were asked for. Move it first, with model.to(…)."
            )
    else:
        with downloads(download):
            model = _opened(str(spec), **how)
    if batch_nodes is not None and model.batch_nodes is not None:
        model.batch_nodes = batch_nodes
    return model


def _opened(spec: str, **how: Any) -> LanguageModel:
    try:
        for _, source in SOURCES.items():
            if (model := source().open(spec, **how)) is not None:
                return model
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
    cure = did_you_mean(spec, [name for name, _ in list_models()])
    if spec in phenomenon_names() or suffix_of(Path(spec)) in (*SUFFIXES, ".yaml", ".yml"):
        cure = f" That is a question: name it after the model, such as wiki-lstm {spec}."
    if spec.startswith("hf:") and "/" not in spec:
        cure = " The organisation is missing: write hf:ORG/NAME, such as hf:openai-community/gpt2."
    raise PivotalError(f"A model is a name, a path or hf:ORG/NAME, not {spec[:200]!r}.{cure}")


def list_models() -> list[tuple[str, str]]:
    """The name and a one-line description of each model that can be loaded by name."""
    return [entry for _, source in SOURCES.items() for entry in source().listed()]


def device_named(name: str | None) -> torch.device:
    """The device of that name; by default a GPU if there is one. Raises PivotalError if torch does not have it."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        raise PivotalError(
            f"The device must be one that torch has here, but {name!r} is not ({in_short(error)}). Use cpu."
        ) from None
    return device


def _dtype(wanted: str | torch.dtype | None, device: torch.device) -> torch.dtype | None:
    if wanted is None:
        return None
    name = str(wanted).removeprefix("torch.")
    if name not in DTYPES:
        raise PivotalError(f"There is no dtype {name!r} for models.{did_you_mean(name, DTYPES)}")
    dtype: torch.dtype = getattr(torch, name)
    if dtype.itemsize < 4 and device.type == "cpu":
        raise PivotalError(f"{name} needs a GPU. Use float32, or --device cuda.")
    return dtype
