"""A LoRA adapter for the package peft. It is written without that package."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from torch import Tensor

from pivotal.exports.base import ExportNotes, Portable, Target
from pivotal.exports.templates import render
from pivotal.exports.weights import WeightChange, change_of, check_weights_hold, folder_names, write_weights
from pivotal.files import write_text
from pivotal.units import Steps

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


class PeftTarget(Target):
    """Setting coordinate i of x to v, for all i in a set, changes the projection W x by

        sum_i (v_i - x_i) W[:, i] = B A x + b,  with the rows of A the coordinates, B = -W[:, ids] and b = W[:, ids] v,

    which is a LoRA with a bias (`lora_bias`). Its rank is the number of coordinates, and its scale alpha / r is 1. In a
    linear basis, the rows of A are the directions that the coordinates read, and B = -W D for the directions D that
    they write.
    """

    name: ClassVar[str] = "peft"
    summary: ClassVar[str] = "a LoRA adapter for each direction, for the package peft"
    steps: ClassVar[tuple[Steps, ...]] = ("every",)

    def write(self, portable: Portable, folder: Path) -> ExportNotes:
        names = folder_names(portable.intervention.directions)
        for label in portable.directions:
            edits = portable.edits(label)
            check_weights_hold(self.name, edits)
            changed = [change_of(self.name, edit) for edit in edits]
            (folder / names[label]).mkdir()
            write_weights(folder / names[label] / WEIGHTS, _weights(changed))
            write_text(
                folder / names[label] / CONFIG, json.dumps(_config(portable, changed), indent=2) + "\n"
            )
        use = render(
            "peft.md",
            base=portable.base,
            chosen=names[portable.directions[0]],
            folders=", ".join(f"`{names[label]}`" for label in portable.directions),
            # Only a name that means nothing to a shell or to Markdown stands in the command.
            argument=portable.base if re.fullmatch(r"[\w./@+-]+", portable.base) else "MODEL",
        )
        return ExportNotes(use, portable.priming_notes())


def _weights(changed: Sequence[WeightChange]) -> dict[str, Tensor]:
    tensors = {}
    for change in changed:
        name = f"base_model.model.{change.path}"
        tensors[f"{name}.lora_A.weight"] = change.reads.contiguous()
        tensors[f"{name}.lora_B.weight"] = -change.columns.contiguous()
        tensors[f"{name}.lora_B.bias"] = change.bias
    return tensors


def _config(portable: Portable, changed: Sequence[WeightChange]) -> dict[str, object]:
    ranks = {change.path: len(change.constants) for change in changed}
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
        "fan_in_fan_out": changed[0].transposed,
    }
