"""The weights of the projections that the edited activations enter."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pivotal.errors import PivotalError
from pivotal.exports.base import SiteEdit


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
