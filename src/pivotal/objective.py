"""What an intervention is to achieve, as a number per example."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

Objective = Literal["soft-margin", "ratio"]

_LARGEST = 60.0
"""exp of more than this leaves float32's comfortable range; such an example is lost either way."""


def loss_of(
    objective: Objective, log_ratio: Float[Tensor, "runs examples"], margin: float
) -> Float[Tensor, "runs examples"]:
    """`ratio` is the paper's p(d) / p(t). Its gradient is owned by the few worst sentences, since it grows
    exponentially with their margin; `soft-margin`, log(1 + exp(margin + log ratio)), grows linearly instead."""
    if objective == "ratio":
        return log_ratio.clamp(max=_LARGEST).exp()
    return torch.nn.functional.softplus(log_ratio + margin)
