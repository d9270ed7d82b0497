"""Run a tree in parts, so that memory stays bounded for any size of the tree and any number of runs."""

from __future__ import annotations

import gc
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from pivotal.errors import PivotalError
from pivotal.models.base import LanguageModel
from pivotal.models.edits import Edit, runs_of
from pivotal.models.layout import Layout
from pivotal.models.tensors import distinct_rows
from pivotal.models.tree import PrefixTree

FEWEST = 64
"""The least number of nodes of a part, whatever the number of runs."""

T = TypeVar("T")


@dataclass
class Chunk:
    """A part of a tree: its layout, and what a model caches for it."""

    layout: Layout
    past: Any = None
    """The keys and values of the tokens before the first edit."""
    entries: dict[int, Tensor] = field(default_factory=dict)
    """The inputs of the first edited blocks."""


@dataclass(frozen=True)
class Division:
    """A tree in parts of at most `most` nodes."""

    most: int
    chunks: list[Chunk]
    order: Int[Tensor, " live"]
    """The row of each live node among the rows of all parts."""


@dataclass
class PreparedChunks:
    """A tree, and its parts for the size that was last requested."""

    tree: PrefixTree | None
    """None: the parts are given and stay the same."""
    division: Division | None = None
    known: Mapping[int, Float[Tensor, "prefixes width"]] = field(default_factory=dict)
    """The inputs of some blocks in the untouched model."""
    rows: Int[Tensor, " nodes"] | None = None
    """The row of each node of the tree among them."""


class ChunkedLM(LanguageModel):
    """A model that runs trees part by part. `divide` and `run_chunk` are called with `lock` held, so that threads take
    turns (see hooks.py)."""

    batch_nodes: int
    lock: AbstractContextManager[object]

    @abstractmethod
    def divide(self, tree: PrefixTree, most: int) -> list[Chunk]:
        """The tree as chunks of at most `most` nodes."""

    @abstractmethod
    def run_chunk(self, chunk: Chunk, edit: Edit | None) -> Float[Tensor, "nodes runs width"]:
        """The states of the nodes of a chunk."""

    def longest_chunk(self, tree: PrefixTree) -> int | None:
        """The most nodes that `divide` ever puts into a chunk, whatever memory allows; None if there is no limit."""
        return None

    def prepare(self, tree: PrefixTree) -> PreparedChunks:
        return PreparedChunks(tree)

    def compute(self, prepared: PreparedChunks, edit: Edit | None) -> Float[Tensor, "live runs width"]:
        if prepared.tree is None:
            return self._states(prepared, edit)
        return as_memory_allows(self, lambda: self._states(prepared, edit))

    def division(self, prepared: PreparedChunks, runs: int) -> Division:
        """The parts for a number of runs. They are kept until another number of runs needs smaller or larger ones."""
        most = max(FEWEST, self.batch_nodes // runs)
        with self.lock:
            if prepared.tree is None:
                assert prepared.division is not None
                return prepared.division
            longest = self.longest_chunk(prepared.tree)
            if longest is not None:
                # Passes with one run and with several then share the parts, with all that a model caches for them.
                most = min(most, longest)
            if prepared.division is None or prepared.division.most != most:
                chunks = self.divide(prepared.tree, most)
                for chunk in chunks:
                    if prepared.rows is not None and chunk.layout.nodes is not None:
                        rows = prepared.rows[chunk.layout.nodes]
                        chunk.entries |= {block: h[rows][None] for block, h in prepared.known.items()}
                order = torch.cat([chunk.layout.live_rows for chunk in chunks]).argsort()
                prepared.division = Division(most, chunks, order)
            return prepared.division

    def _run(self, chunk: Chunk, edit: Edit | None) -> Tensor:
        """Hold the lock for one part only: the backward pass may run a part again, on a GPU in another thread."""
        with self.lock:
            return self.run_chunk(chunk, edit)

    def _states(self, prepared: PreparedChunks, edit: Edit | None) -> Tensor:
        runs = 1 if edit is None else runs_of(edit)
        division = self.division(prepared, runs)
        # If all parts do not fit in memory together, the backward pass computes each of them again.
        again = (
            edit is not None
            and torch.is_grad_enabled()
            and len(division.chunks) > 1
            and len(division.order) * runs > self.batch_nodes
        )
        states = [
            checkpoint(self._run, chunk, edit, use_reentrant=False) if again else self._run(chunk, edit)
            for chunk in division.chunks
        ]
        return distinct_rows(torch.cat(states) if len(states) > 1 else states[0], division.order)


def as_memory_allows(model: LanguageModel, passes: Callable[[], T]) -> T:
    """Call `passes`, and call it again with half as many nodes at once whenever memory runs out.

    `passes` must be repeatable: random numbers are drawn before it, and parameters are updated after it.
    """
    while True:
        try:
            return passes()
        except torch.OutOfMemoryError as error:
            if model.batch_nodes is None:
                raise
            if model.batch_nodes <= FEWEST:
                raise PivotalError(
                    f"The model does not fit into memory even with {model.batch_nodes} nodes at once. Free memory, or "
                    "use a smaller model, fewer runs, --dtype bfloat16 or another device."
                ) from error
        # Outside the handler: the error keeps its frames alive, and with them the graph that was too large.
        model.batch_nodes //= 2
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        # Warned from one place, whoever asked for the passes, so that Python shows the same text once.
        warnings.warn(
            f"Out of memory: continuing with half as many nodes at once (--batch-nodes {model.batch_nodes}).",
            stacklevel=1,
        )
