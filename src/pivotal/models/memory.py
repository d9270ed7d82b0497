"""What to do when a device runs out of memory: compute less at once, say so, and go on."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch

from pivotal.errors import PivotalError

FEWEST = 64
"""A part may always have this many nodes, however many runs there are."""

T = TypeVar("T")


@runtime_checkable
class Bounded(Protocol):
    """Whatever computes at most so many nodes, times runs, at once."""

    batch_nodes: Any
    """A whole number, or None where there is no bound to lower."""


def as_memory_allows(bounded: Bounded, passes: Callable[[], T]) -> T:
    """What `passes` gives. If memory runs out in it, it is begun again with half as many nodes at once.

    So it must be such that it can be begun again: numbers at random are drawn before it, and what it learns is put to
    use after it.
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
                    "Use a smaller model, fewer runs, --dtype bfloat16, or another device."
                ) from error
        # Not in the handler: as long as there is the error, there are the frames that it went through, and the whole
        # graph that was too large.
        _halve(bounded)


def _halve(bounded: Bounded) -> None:
    bounded.batch_nodes //= 2
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    warnings.warn(
        f"Out of memory: going on with half as many nodes at once, {bounded.batch_nodes} "
        "(--batch-nodes sets it from the start).",
        stacklevel=4,
    )
