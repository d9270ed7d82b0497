"""How long a text may be: some models look their positions up in a table, and have none beyond its end."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

_LENGTHS = (5, 7)
"""Of the texts that are tried."""


@torch.no_grad()
def positions_of(model: nn.Module, token: int, device: torch.device) -> int | None:
    """How many positions a model has; None if it computes them, as rotary models do, or has none.

    Read off what it does: in a text that is one token many times over, only positions count up. A table is as long
    whatever the length of the text; what is not was made of the text.
    """
    found = []
    trunk = getattr(
        model, "base_model", model
    )  # without the head, which is much of the work and knows no positions
    for steps in _LENGTHS:
        with _Lookups(steps) as lookups:
            trunk(input_ids=torch.full((1, steps), token, device=device), use_cache=False)
        found.append(lookups.limits)
    return min(set.intersection(*found), default=None)


class _Lookups(TorchFunctionMode):
    """Notes the tables that are looked up at one position after another."""

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
            # The sines and cosines of GPT-J.
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
