"""Reads files that torch wrote, without running anything that is in them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import torch

UNREADABLE = (
    *(OSError, EOFError, RuntimeError, ValueError, TypeError, KeyError, IndexError, AttributeError),
    *(AssertionError, OverflowError, MemoryError, pickle.UnpicklingError),
)
"""The errors that torch raises for a file that is damaged, or that is something else."""


def load_tensors(path: Path) -> Any:
    """The tensors, numbers and texts in a file, on the CPU. A file that holds anything else is refused by torch, with
    one of the errors in `UNREADABLE`."""
    return torch.load(path, map_location="cpu", weights_only=True)
