"""The weights of the projections that the edited activations enter."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pivotal.errors import PivotalError
from pivotal.exports.base import SiteEdit


def is_transposed(module: nn.Module) -> bool:
    """Whether a projection stores its weights as inputs x outputs, like the Conv1D of GPT-2."""
    return type(module).__name__ == "Conv1D"


def columns(target: str, edit: SiteEdit) -> Tensor:
    """What each edited coordinate adds to the output of its projection: outputs x coordinates, in float32."""
    module = edit.tap.module
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor) or not (isinstance(module, nn.Linear) or is_transposed(module)):
        raise PivotalError(
            f"{target} needs linear projections, but {edit.path}, which {edit.site} enters, is a "
            f"{type(module).__name__}. Export it to snippet."
        )
    if weight.is_meta:
        raise PivotalError(
            f"{target} needs the weights in memory, but those of {edit.path} are on the disk because the model is "
            "larger than the device. Load it on the CPU with --device cpu."
        )
    chosen = weight[list(edit.ids)].T if is_transposed(module) else weight[:, list(edit.ids)]
    return chosen.detach().to("cpu", torch.float32)


def constant(target: str, edit: SiteEdit) -> Tensor:
    """What the values of the edited coordinates add to the output of their projection."""
    return (columns(target, edit).double() @ torch.tensor(edit.values, dtype=torch.float64)).float()
