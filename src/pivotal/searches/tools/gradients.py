"""Gradients that are too large for their number format."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor


def set_gradients(total: Float[Tensor, " runs"], parameters: Sequence[Tensor]) -> None:
    """Set the gradients of parameters to those of the sum of `total`; None where it does not depend on one."""
    found = torch.autograd.grad(total.sum(), parameters, allow_unused=True)
    for parameter, grad in zip(parameters, found, strict=True):
        parameter.grad = grad


def adam(parameters: Sequence[tuple[Tensor, float]]) -> torch.optim.Adam:
    """Adam for parameters with their rates. On a GPU its steps can be part of a recording."""
    groups = [{"params": [parameter], "lr": rate} for parameter, rate in parameters]
    made = torch.optim.Adam(groups, betas=(0.9, 0.99), capturable=parameters[0][0].is_cuda)
    made._warned_capturable_if_run_uncaptured = True  # the first step is run, not recorded
    return made


@torch.no_grad()
def drop_infinite(parameters: Iterable[Tensor]) -> None:
    """Set the gradients that are infinite or NaN to zero, so that the next update leaves these entries alone.

    The gradient of a recurrent model may grow with every step of a prefix and overflow after hundreds of steps, while
    the loss is an ordinary number. One such entry would make its value NaN for good.
    """
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
