"""Recovery from out-of-memory errors: compute fewer nodes at once, warn, and continue."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch

from pivotal.errors import PivotalError

FEWEST = 64
"""The least number of nodes of a part, whatever the number of runs."""

T = TypeVar("T")


@runtime_checkable
class Bounded(Protocol):
    """An object with a limit on the nodes, times runs, that it computes at once."""

    batch_nodes: Any
    """A whole number, or None if there is no limit to lower."""


def as_memory_allows(bounded: Bounded, passes: Callable[[], T]) -> T:
    """Call `passes`, and call it again with half as many nodes at once whenever memory runs out.

    `passes` must be repeatable: random numbers are drawn before it, and parameters are updated after it.
    """
    while True:
        try:
            return passes()
        except torch.OutOfMemoryError as error:
            if bounded.batch_nodes is None:
                raise
            if bounded.batch_nodes <= FEWEST:
                raise PivotalError(
                    f"The model does not fit into memory even with {bounded.batch_nodes} nodes at once. "
                    "Free memory that other processes use, or choose a smaller model, fewer runs, --dtype bfloat16 or "
                    "another device."
                ) from error
        # Outside the handler: the error keeps its frames alive, and with them the graph that was too large.
        _halve(bounded)


def _halve(bounded: Bounded) -> None:
    bounded.batch_nodes //= 2
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    warnings.warn(
        f"Out of memory: continuing with half as many nodes at once, {bounded.batch_nodes} "
        "(--batch-nodes sets it from the start).",
        stacklevel=4,
    )
