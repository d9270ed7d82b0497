"""Run a tree in parts, so that memory stays bounded for any size of the tree and any number of runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar
from weakref import WeakMethod

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from pivotal.models.base import LanguageModel
from pivotal.models.edits import Edit, runs_of
from pivotal.models.gather import distinct_rows
from pivotal.models.layout import Layout
from pivotal.models.memory import FEWEST, as_memory_allows
from pivotal.models.tree import PrefixTree


class Chunk(Protocol):
    """A part of a tree with its layout, and whatever a model caches for it."""

    @property
    def layout(self) -> Layout: ...


C = TypeVar("C", bound=Chunk)


@dataclass(frozen=True)
class Division:
    """A tree in parts of at most `most` nodes."""

    most: int
    chunks: list
    order: Int[Tensor, " live"]
    """The row of each live node among the rows of all parts."""


@dataclass
class PreparedChunks:
    """A tree, and its parts for the size that was last requested."""

    tree: PrefixTree | None
    """None: the parts are given and stay the same."""
    division: Division | None = None


class Chunks:
    """Runs trees part by part.

    The model provides two of its methods: `divide(tree, most)`, which makes parts of at most `most` nodes, and
    `run(chunk, edit)`, which returns the states of a part's nodes. Both are called with `lock` held, so that threads
    take turns (see hooks.py). `longest(tree)` is optional: the most nodes that `divide` ever puts into a part, or None.
    """

    def __init__(
        self,
        batch_nodes: int,
        divide: Callable[[PrefixTree, int], list[C]],
        run: Callable[[C, Edit | None], Float[Tensor, "nodes runs width"]],
        lock: AbstractContextManager[object],
        longest: Callable[[PrefixTree], int | None] | None = None,
    ) -> None:
        self.batch_nodes = batch_nodes
        """The most nodes, times runs, to compute at once."""
        # Weak, because the model owns this object: with a reference back, a large model would stay in memory until
        # Python looks for cycles.
        self._divide, self._run_one, self._lock = WeakMethod(divide), WeakMethod(run), lock
        self._longest = None if longest is None else WeakMethod(longest)

    def states(self, prepared: PreparedChunks, edit: Edit | None) -> Float[Tensor, "live runs width"]:
        if prepared.tree is None:
            return self._states(prepared, edit)
        return as_memory_allows(self, lambda: self._states(prepared, edit))

    def division(self, prepared: PreparedChunks, runs: int) -> Division:
        """The parts for a number of runs. They are kept until another number of runs needs smaller or larger ones."""
        most = max(FEWEST, self.batch_nodes // runs)
        with self._lock:
            if prepared.tree is None:
                assert prepared.division is not None
                return prepared.division
            longest = None if self._longest is None else _alive(self._longest)(prepared.tree)
            if longest is not None:
                # Passes with one run and with several then share the parts, with all that a model caches for them.
                most = min(most, longest)
            if prepared.division is None or prepared.division.most != most:
                chunks = _alive(self._divide)(prepared.tree, most)
                order = torch.cat([chunk.layout.live_rows for chunk in chunks]).argsort()
                prepared.division = Division(most, chunks, order)
            return prepared.division

    def _run(self, chunk: Any, edit: Edit | None) -> Tensor:
        """Hold the lock for one part only: the backward pass may run a part again, on a GPU in another thread."""
        with self._lock:
            return _alive(self._run_one)(chunk, edit)

    def _states(self, prepared: PreparedChunks, edit: Edit | None) -> Tensor:
        runs = 1 if edit is None else runs_of(edit)
        division = self.division(prepared, runs)
        chunks = division.chunks
        # If all parts do not fit in memory together, the backward pass computes each of them again.
        again = edit is not None and torch.is_grad_enabled() and len(chunks) > 1
        again = again and len(division.order) * runs > self.batch_nodes
        model = _alive(self._run_one)  # the backward pass may come when nobody else keeps the model

        def run_again(chunk: Any, edit: Edit | None, _: object = model) -> Tensor:
            return self._run(chunk, edit)

        found = [
            checkpoint(run_again, chunk, edit, use_reentrant=False) if again else self._run(chunk, edit)
            for chunk in chunks
        ]
        return distinct_rows(torch.cat(found) if len(found) > 1 else found[0], division.order)


def _alive(method: WeakMethod[Callable[..., Any]]) -> Callable[..., Any]:
    found = method()
    assert found is not None, "only the model calls its chunks"
    return found


class ChunkedLM(LanguageModel):
    """A model that runs trees part by part. A subclass sets `_chunks`."""

    _chunks: Chunks

    @property
    def batch_nodes(self) -> int:
        """The most nodes, times runs, to compute at once."""
        return self._chunks.batch_nodes

    @batch_nodes.setter
    def batch_nodes(self, nodes: int) -> None:
        self._chunks.batch_nodes = nodes

    def prepare(self, tree: PrefixTree) -> PreparedChunks:
        return PreparedChunks(tree)

    def compute(self, prepared: PreparedChunks, edit: Edit | None) -> Float[Tensor, "live runs width"]:
        return self._chunks.states(prepared, edit)
