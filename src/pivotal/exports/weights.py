"""The weights of the projections that the edited activations enter, and files of weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from safetensors.torch import save_file
from torch import Tensor, nn

from pivotal.errors import PivotalError
from pivotal.exports.base import SiteEdit
from pivotal.files import write_atomically


def is_transposed(module: nn.Module) -> bool:
    """Whether a projection stores its weights as inputs x outputs, like the Conv1D of GPT-2."""
    return type(module).__name__ == "Conv1D"


def projection(target: str, edit: SiteEdit) -> Float[Tensor, "outputs inputs"]:
    """The weights of the projection that an edited activation enters, in float32."""
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
    return (weight.T if is_transposed(module) else weight).detach().to("cpu", torch.float32)


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


def change_of(target: str, edit: SiteEdit) -> WeightChange:
    """The change of the weights that is an edit. `check_weights_hold` has passed the edit."""
    weight, values = projection(target, edit), torch.tensor(edit.values)
    transposed, held = is_transposed(edit.tap.module), edit.held
    if edit.basis is None:
        reads = torch.zeros(len(held), weight.shape[1])
        reads[range(len(held)), held] = 1.0
        return WeightChange(edit.path, transposed, reads, values, weight[:, held])
    basis = edit.basis
    written = (weight.double() @ basis.decoder[held].T.double()).float()
    return WeightChange(edit.path, transposed, basis.encoder[:, held].T, values - basis.bias[held], written)


def check_weights_hold(target: str, edits: list[SiteEdit]) -> None:
    """Raise PivotalError unless every edited activation is the input of a projection, and its new value is a linear
    function of it, so that weights can hold the edit."""
    for edit in edits:
        if edit.basis is not None and edit.basis.activation != "none":
            raise PivotalError(
                f"{target} changes weights, which compute linear functions, but the features of {edit.site} pass the "
                f"activation {edit.basis.activation}. Export it to snippet, pyvene, nnsight or transformer-lens."
            )
        if edit.tap.side != "input":
            raise PivotalError(
                f"{target} changes the weights of projections, and {edit.site} is the output of a whole block, which "
                "enters no projection of its own. Export it to snippet, pyvene, nnsight or transformer-lens, or find "
                "units of other sites (--sites mlp, attn or head)."
            )


def folder_names(labels: tuple[str, ...]) -> dict[str, str]:
    """A name for the folder of each direction. A label may be any text."""
    names: dict[str, str] = {}
    for label in labels:
        plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in label)[:40] or "-"
        while plain in names.values() or not plain.strip("-"):
            plain += f"{len(names)}"
        names[label] = plain
    return names


def write_weights(path: Path, tensors: dict[str, Tensor]) -> None:
    """Write a safetensors file with the mode of any other file; safetensors itself makes it unreadable to others."""
    write_atomically(path, lambda partial: save_file(tensors, partial, metadata={"format": "pt"}))
