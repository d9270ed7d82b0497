"""Targets that put the edit into weights: an adapter for peft, and a model folder of transformers."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from safetensors.torch import save_file
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.exports.base import ExportNotes, Portable, SiteEdit, Target
from pivotal.exports.templates import render
from pivotal.files import write_atomically, write_text
from pivotal.models.tensors import loaded
from pivotal.models.transformers.anatomy import is_transposed, matrix_of
from pivotal.models.transformers.gguf import untied
from pivotal.units import Steps

_FLAGS = {"mlp": "mlp_bias", "attn": "attention_bias", "head": "attention_bias"}
"""The settings that give the projections of a model biases, in configurations that have them."""


@dataclass(frozen=True, slots=True)
class WeightChange:
    """An edit as a change of the projection W that the activation x enters: W x becomes W x + columns @ (constants -
    reads @ x)."""

    path: str
    """The projection."""
    transposed: bool
    reads: Float[Tensor, "rank inputs"]
    constants: Float[Tensor, " rank"]
    columns: Float[Tensor, "outputs rank"]

    @property
    def bias(self) -> Float[Tensor, " outputs"]:
        """What the constants add to the output of the projection."""
        return (self.columns.double() @ self.constants.double()).float()

    @staticmethod
    def of(target: str, edit: SiteEdit) -> WeightChange:
        """The change of the weights that is an edit. PivotalError if weights cannot hold it: they hold it if the edited
        activation is the input of a projection, and its new value is a linear function of it."""
        if edit.basis is not None and edit.basis.activation != "none":
            raise PivotalError(
                f"{target} needs linear features, but those of {edit.site} are not. Use snippet or pyvene."
            )
        if edit.tap.side != "input":
            raise PivotalError(
                f"{target} changes the weights of projections, but {edit.site} is the output of a block and enters "
                "none. Export it to snippet, pyvene, nnsight or transformer-lens, or search --sites mlp, attn or head."
            )
        weight, values = projection(target, edit), torch.tensor(edit.values)
        transposed, held = is_transposed(edit.tap.module), edit.held
        if edit.basis is None:
            reads = torch.zeros(len(held), weight.shape[1])
            reads[range(len(held)), held] = 1.0
            return WeightChange(edit.path, transposed, reads, values, weight[:, held])
        basis = edit.basis
        written = (weight.double() @ basis.decoder[held].T.double()).float()
        reads, constants = basis.encoder[:, held].T, values - basis.bias[held]
        return WeightChange(edit.path, transposed, reads, constants, written)


def projection(target: str, edit: SiteEdit) -> Float[Tensor, "outputs inputs"]:
    """The weights of the projection that an edited activation enters, in float32."""
    module, kind = edit.tap.module, type(edit.tap.module)
    if matrix_of(module) is None:
        raise PivotalError(
            f"{target} needs a matrix of floats, but {edit.path} is a {kind.__module__}.{kind.__name__}. Use snippet."
        )
    weight = loaded(module, "weight").to("cpu", torch.float32)
    return weight.T if is_transposed(module) else weight


def write_weights(path: Path, tensors: dict[str, Tensor]) -> None:
    """Write a safetensors file with the mode of any other file; safetensors itself makes it unreadable to others."""
    write_atomically(path, lambda partial: save_file(tensors, partial, metadata={"format": "pt"}))


# -- peft -----------------------------------------------------------------------------------------------------------


class PeftTarget(Target):
    """Setting coordinate i of x to v, for all i in a set, changes the projection W x by

        sum_i (v_i - x_i) W[:, i] = B A x + b,  with the rows of A the coordinates, B = -W[:, ids] and b = W[:, ids] v,

    which is a LoRA with a bias (`lora_bias`). Its rank is the number of coordinates, and its scale alpha / r is 1. In a
    linear basis, the rows of A are the directions that the coordinates read, and B = -W D for the directions D that
    they write. It is written without the package peft.
    """

    name: ClassVar[str] = "peft"
    summary: ClassVar[str] = "a LoRA adapter for each direction, for the package peft"
    steps: ClassVar[tuple[Steps, ...]] = ("every",)

    def write(self, portable: Portable, folder: Path) -> ExportNotes:
        names = portable.names
        for label in portable.directions:
            changes = [WeightChange.of(self.name, edit) for edit in portable.edits(label)]
            tensors = {}
            for change in changes:
                name = f"base_model.model.{change.path}"
                tensors[f"{name}.lora_A.weight"] = change.reads.contiguous()
                tensors[f"{name}.lora_B.weight"] = -change.columns.contiguous()
                tensors[f"{name}.lora_B.bias"] = change.bias
            (folder / names[label]).mkdir()
            write_weights(folder / names[label] / "adapter_model.safetensors", tensors)
            config = json.dumps(_config(portable, changes), indent=2)
            write_text(folder / names[label] / "adapter_config.json", config + "\n")
        use = render(
            "peft.md",
            base=portable.base,
            text=portable.text,
            chosen=names[portable.directions[0]],
            folders=", ".join(f"`{names[label]}`" for label in portable.directions),
            # Only a name that means nothing to a shell or to Markdown stands in the command.
            argument=portable.base if re.fullmatch(r"[\w./@+-]+", portable.base) else "MODEL",
        )
        return ExportNotes(use, portable.priming_notes())


def _config(portable: Portable, changes: Sequence[WeightChange]) -> dict[str, object]:
    ranks = {change.path: len(change.constants) for change in changes}
    most = max(ranks.values())
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": portable.base,
        "inference_mode": True,
        "r": most,
        "lora_alpha": most,
        # The names are regular expressions. Each has a rank of its own, and the same alpha, so that the scale is 1.
        "rank_pattern": ranks,
        "alpha_pattern": ranks,
        "target_modules": list(ranks),
        "lora_bias": True,
        "bias": "none",
        "lora_dropout": 0.0,
        "init_lora_weights": True,
        "fan_in_fan_out": changes[0].transposed,
    }


# -- transformers ---------------------------------------------------------------------------------------------------


class TransformersTarget(Target):
    """Setting coordinate i of x to v in W x + b is the same as setting W[:, i] to zero and adding v W[:, i] to b. In a
    linear basis, W loses what the coordinates read and write in the same way."""

    name: ClassVar[str] = "transformers"
    summary: ClassVar[str] = (
        "a model folder for each direction with the edit in its weights, for transformers"
    )
    steps: ClassVar[tuple[Steps, ...]] = ("every",)

    def write(self, portable: Portable, folder: Path) -> ExportNotes:
        names, network = portable.names, portable.model.network
        for label in portable.directions:
            edits = portable.edits(label)
            changes = [WeightChange.of(self.name, edit) for edit in edits]
            config, state = _with_biases(network, edits)
            for change in changes:
                _bake(state, change)
            inside = folder / names[label]
            inside.mkdir()
            write_weights(inside / "model.safetensors", untied(state))
            config.save_pretrained(inside)
            portable.model.tokenizer.save_pretrained(inside)
            if getattr(network, "generation_config", None) is not None:
                network.generation_config.save_pretrained(inside)
        use = render(
            "transformers.md",
            text=portable.text,
            chosen=names[portable.directions[0]],
            folders=", ".join(f"`{names[label]}`" for label in portable.directions),
            dtype=str(network.dtype)[6:],
        )
        return ExportNotes(use, portable.priming_notes())


def _with_biases(network: Any, edits: list[SiteEdit]) -> tuple[Any, dict[str, Tensor]]:
    """A copy of the configuration, and the weights. Both get biases where the edits need some."""
    config = copy.deepcopy(network.config)
    config.architectures = [type(network).__name__]
    kept = network.state_dict().items()
    state = {name: loaded(network, name) if weight.is_meta else weight for name, weight in kept}
    without = [edit for edit in edits if getattr(edit.tap.module, "bias", None) is None]
    if not without:
        return config, state
    for edit in without:
        if hasattr(config, flag := _FLAGS.get(edit.kind, "")):
            setattr(config, flag, True)
    with torch.device("meta"):
        wanted = type(network)(config).state_dict()
    added = {name: weight for name, weight in wanted.items() if name not in state}
    for edit in without:
        if f"{edit.path}.bias" not in added:
            raise PivotalError(
                f"{type(network).__name__} can have no bias in {edit.path}. Export it to peft or snippet."
            )
    dtype = network.dtype
    return config, state | {name: torch.zeros(weight.shape, dtype=dtype) for name, weight in added.items()}


def _bake(state: dict[str, Tensor], change: WeightChange) -> None:
    weight, bias = f"{change.path}.weight", f"{change.path}.bias"
    dtype = state[bias].dtype
    less = change.columns @ change.reads
    old = state[weight].detach().to("cpu", torch.float32)
    state[weight] = (old - (less.T if change.transposed else less)).to(state[weight].dtype)
    state[bias] = (state[bias].detach().to("cpu", torch.float32) + change.bias).to(dtype)
