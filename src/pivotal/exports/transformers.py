"""A model folder of transformers with the edit in its weights."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.exports.base import ExportNotes, Portable, SiteEdit, Target
from pivotal.exports.templates import render
from pivotal.exports.weights import WeightChange, change_of, check_weights_hold, folder_names, write_weights
from pivotal.models.transformers.gguf import untied
from pivotal.units import Steps

_FLAGS = {"mlp": "mlp_bias", "attn": "attention_bias", "head": "attention_bias"}
"""The settings that give the projections of a model biases, in configurations that have them."""


class TransformersTarget(Target):
    """Setting coordinate i of x to v in W x + b is the same as setting W[:, i] to zero and adding v W[:, i] to b. In a
    linear basis, W loses what the coordinates read and write in the same way."""

    name: ClassVar[str] = "transformers"
    summary: ClassVar[str] = (
        "a model folder for each direction with the edit in its weights, for transformers"
    )
    steps: ClassVar[tuple[Steps, ...]] = ("every",)

    def write(self, portable: Portable, folder: Path) -> ExportNotes:
        names = folder_names(portable.intervention.directions)
        network = portable.model.network
        for label in portable.directions:
            edits = portable.edits(label)
            check_weights_hold(self.name, edits)
            config, state = _with_biases(network, edits)
            for edit in edits:
                _bake(state, change_of(self.name, edit))
            inside = folder / names[label]
            inside.mkdir()
            write_weights(inside / "model.safetensors", untied(state))
            config.save_pretrained(inside)
            portable.model.tokenizer.save_pretrained(inside)
            if getattr(network, "generation_config", None) is not None:
                network.generation_config.save_pretrained(inside)
        use = render(
            "transformers.md",
            chosen=names[portable.directions[0]],
            folders=", ".join(f"`{names[label]}`" for label in portable.directions),
            dtype=str(network.dtype)[6:],
        )
        return ExportNotes(use, portable.priming_notes())


def _with_biases(network: Any, edits: list[SiteEdit]) -> tuple[Any, dict[str, Tensor]]:
    """A copy of the configuration, and the weights. Both get biases where the edits need some."""
    config = copy.deepcopy(network.config)
    config.architectures = [type(network).__name__]
    state = dict(network.state_dict())
    without = [edit for edit in edits if getattr(edit.tap.module, "bias", None) is None]
    if not without:
        return config, state
    for edit in without:
        flag = _FLAGS.get(edit.kind)
        if flag is None or not hasattr(config, flag):
            raise _no_bias(network, edit)
        setattr(config, flag, True)
    with torch.device("meta"):
        wanted = type(network)(config).state_dict()
    added = {name: weight for name, weight in wanted.items() if name not in state}
    for edit in without:
        if f"{edit.path}.bias" not in added:
            raise _no_bias(network, edit)
    dtype = network.dtype
    return config, state | {name: torch.zeros(weight.shape, dtype=dtype) for name, weight in added.items()}


def _no_bias(network: Any, edit: SiteEdit) -> PivotalError:
    return PivotalError(
        f"A constant value of {edit.site} becomes a bias of {edit.path}, but the configuration of "
        f"{type(network).__name__} has no setting for a bias there. Export it to peft, whose adapter has a bias of its "
        "own, or to snippet."
    )


def _bake(state: dict[str, Tensor], change: WeightChange) -> None:
    weight, bias = f"{change.path}.weight", f"{change.path}.bias"
    dtype = state[bias].dtype
    less = change.columns @ change.reads
    old = state[weight].detach().to("cpu", torch.float32)
    state[weight] = (old - (less.T if change.transposed else less)).to(state[weight].dtype)
    state[bias] = (state[bias].detach().to("cpu", torch.float32) + change.bias).to(dtype)
