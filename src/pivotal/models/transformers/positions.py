"""The longest text of a model. Some models look up positions in a table and have none beyond its end."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

_LENGTHS = (5, 7)
"""The lengths of the probes."""


@torch.no_grad()
def positions_of(model: nn.Module, token: int, device: torch.device) -> int | None:
    """The number of positions of a model; None if it computes them, as rotary models do, or has none.

    The probe repeats one token, so that only positions count up. A look-up with consecutive indices, in a table whose
    length does not depend on the length of the probe, is the look-up of positions.
    """
    found = []
    trunk = getattr(
        model, "base_model", model
    )  # without the head, which is much of the work and has no positions
    for steps in _LENGTHS:
        with _Lookups(steps) as lookups:
            trunk(input_ids=torch.full((1, steps), token, device=device), use_cache=False)
        found.append(lookups.limits)
    return min(set.intersection(*found), default=None)


class _Lookups(TorchFunctionMode):
    """Records the lengths of the tables that are looked up with consecutive indices."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self._steps = steps
        self.limits: set[int] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is nn.functional.embedding:
            self._note(args[1].shape[0], args[0])
        elif func is torch.embedding:
            self._note(args[0].shape[0], args[1])
        elif func in (torch.gather, torch.Tensor.gather) and len(args) == 3 and isinstance(args[2], Tensor):
            # GPT-J looks up sines and cosines.
            self._note(args[0].shape[args[1]], args[2].movedim(args[1], -1))
        elif func is torch.Tensor.__getitem__ and isinstance(args[1], Tensor) and args[0].ndim:
            self._note(args[0].shape[0], args[1])
        return func(*args, **(kwargs or {}))

    def _note(self, rows: int, places: Tensor) -> None:
        if places.dtype not in (torch.int64, torch.int32) or not places.ndim or not places.numel():
            return
        if places.shape[-1] == self._steps and bool((places.diff(dim=-1) == 1).all()):
            # OPT does not use the first two rows of its table.
            self.limits.add(rows - int(places.min()))
