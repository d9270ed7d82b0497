"""Gradients that are too large for their number format."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


@torch.no_grad()
def drop_infinite(parameters: Iterable[Tensor]) -> None:
    """Set the gradients that are infinite or NaN to zero, so that the next update leaves these entries alone.

    The gradient of a recurrent model may grow with every step of a prefix and overflow after hundreds of steps, while
    the loss is an ordinary number. One such entry would make its value NaN for good.
    """
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
