"""The PrefixTree: every distinct prefix is one node, and a model runs each node once.

Two prefixes are the same node only if the model has the same state after both. The key of a node is therefore
(direction, cue, tokens) from the first edited step on, and (tokens) before it. Nodes before the first edit are
*frozen*: no mask changes them, and they are computed once. The 12,000 sentences of number agreement share most of their
prefixes: the tree costs a sixth of running them one by one.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from pivotal.units import Steps


@dataclass(frozen=True, slots=True)
class Span:
    """Rows [start, stop) that are edited in the same direction."""

    start: int
    stop: int
    direction: int
    repeats: int = 0
    """The number of rows at the end that repeat states of another row or part. They are edited but not counted."""
    nodes: Int[Tensor, " rows"] | None = field(default=None, compare=False)
    """The node of each row, for edits that depend on it. None if the model does not say."""

    @property
    def rows(self) -> slice:
        """The rows that repeat no other."""
        return slice(self.start, self.stop - self.repeats)

    @property
    def nodes_of_rows(self) -> Int[Tensor, " rows"]:
        """The nodes of `rows`."""
        assert self.nodes is not None
        return self.nodes[: len(self.nodes) - self.repeats]


@dataclass(frozen=True, slots=True)
class Level:
    """The nodes of one depth. Rows [start, live) are frozen, and rows [live, stop) are live.

    `parent` is the row of each live row's parent in the level above. `source` is the rows of the level above that have
    live children, and `up` is the index of each live row's parent in `source`: a recurrent model multiplies once per
    parent and not once per child.
    """

    start: int
    live: int
    stop: int
    token: Int[Tensor, " live"]
    parent: Int[Tensor, " live"]
    source: Int[Tensor, " parents"]
    up: Int[Tensor, " live"]
    spans: tuple[Span, ...]


@dataclass(eq=False, repr=False)
class PrefixTree:
    """Nodes in breadth-first order. Node 0 is the root, the state before the first token."""

    token: np.ndarray
    parent: np.ndarray
    depth: np.ndarray
    direction: np.ndarray
    edited: np.ndarray
    live: np.ndarray
    leaf: np.ndarray
    """The last node of each example."""
    source: np.ndarray | None = None
    """For each node, the node of another tree whose state it may take."""

    @staticmethod
    def build(
        sequences: Sequence[Sequence[int]],
        cues: Sequence[int] | None = None,
        directions: Sequence[int] | None = None,
        steps: Steps | None = None,
        sources: Sequence[Sequence[int]] | None = None,
    ) -> PrefixTree:
        """Build the tree of some sequences, each edited at its cue or at every step, in its direction.

        Without `steps`, no node is edited and every node is live. That is the tree of a clean run. `sources` gives each
        token the node of another tree; prefixes whose sources differ are different nodes from the first edit on.
        """
        nodes: dict[tuple[int, int, int, int, int], int] = {(-1, -1, -1, -1, -1): 0}
        rows: list[tuple[int, int, int, int, bool, bool, int]] = [(0, -1, 0, -1, False, False, -1)]
        leaf = np.empty(len(sequences), dtype=np.int64)
        for example, tokens in enumerate(sequences):
            cue = cues[example] if cues is not None else -1
            direction = directions[example] if directions is not None else -1
            node = 0
            for position, token in enumerate(tokens):
                edited = steps == "every" or (steps == "single" and position == cue)
                live = steps is None or steps == "every" or (steps == "single" and position >= cue)
                marked = live and steps is not None
                source = sources[example][position] if sources is not None and marked else -1
                towards = direction if marked else -1
                key = (node, token, towards, cue if marked and steps == "single" else -1, source)
                child = nodes.get(key)
                if child is None:
                    child = nodes[key] = len(rows)
                    rows.append((token, node, position + 1, towards, edited, live, source))
                node = child
            leaf[example] = node
        of_token, parent, depth, of_direction, is_edited, is_live, of_source = map(
            np.array, zip(*rows, strict=True)
        )
        tree = PrefixTree(of_token, parent, depth, of_direction, is_edited, is_live, leaf)
        tree = tree if sources is None else replace(tree, source=of_source)
        return tree.reordered(tree.order())

    def __len__(self) -> int:
        """The number of nodes without the root, which is not a token of any sentence."""
        return len(self.token) - 1

    @cached_property
    def n_live(self) -> int:
        """The number of live nodes."""
        return int(self.live.sum())

    @cached_property
    def live_row(self) -> np.ndarray:
        """The row of each node among the live nodes, which is its row in a model's `states`; -1 for frozen nodes."""
        return np.where(self.live, np.cumsum(self.live) - 1, -1)

    @cached_property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each example."""
        return self.depth[self.leaf]

    def spread(self, per_example: np.ndarray) -> np.ndarray:
        """For each node, the sum of a number over the examples that pass through it."""
        total = np.zeros(len(self.token))
        np.add.at(total, self.leaf, per_example)
        for rows in reversed(self._depths()):
            np.add.at(total, self.parent[rows], total[rows])
        return total

    def gathered(self, per_node: np.ndarray) -> np.ndarray:
        """For each node, the sum over the nodes on the path to it, including itself."""
        total = per_node.copy()
        for rows in self._depths():
            total[rows] += total[self.parent[rows]]
        return total

    def sources(self) -> list[list[int]] | None:
        """For each token of each example, the node of another tree whose state it may take; None if there are none."""
        if self.source is None:
            return None
        return [self.source[self.path(int(leaf))].tolist() for leaf in self.leaf]

    def path(self, node: int) -> list[int]:
        """The nodes on the path from the root to a node, including the node but not the root."""
        path = []
        while node > 0:
            path.append(node)
            node = int(self.parent[node])
        return path[::-1]

    def _depths(self) -> list[slice]:
        """The rows of each depth, from depth 1."""
        starts = np.searchsorted(self.depth, np.arange(1, int(self.depth.max(initial=0)) + 2)).tolist()
        return [slice(start, stop) for start, stop in itertools.pairwise(starts)]

    def restrict(self, examples: np.ndarray) -> PrefixTree:
        """The tree of some examples, with its nodes in the same order."""
        keep = np.zeros(len(self.token), dtype=bool)
        keep[0] = True
        front = np.unique(self.leaf[examples])
        while len(front):
            keep[front] = True
            front = np.unique(self.parent[front[front > 0]])
        return replace(self, leaf=self.leaf[examples]).reordered(np.flatnonzero(keep))

    def rows_in(self, other: PrefixTree, examples: np.ndarray) -> np.ndarray:
        """For each live node, its row among the live nodes of another tree, in which the examples of this one have
        these indices."""
        rows, here, there = np.full(len(self.token), -1), self.leaf, other.leaf[examples]
        while here.any():
            rows[here] = other.live_row[there]
            here, there = self.parent[here].clip(0), other.parent[there].clip(0)
        return rows[self.live]

    def everywhere(self) -> PrefixTree:
        """The same tree with every node live and edited, so that an edit can record all of them. Nodes that were not
        edited have direction 0, and the directions of the others are one higher."""
        real = np.arange(len(self.token)) > 0
        direction = np.where(self.edited, self.direction + 1, 0)
        return replace(self, direction=direction, edited=real, live=real)

    def frozen_part(self) -> PrefixTree:
        """The nodes before the first edits, as the tree of a clean run."""
        part = replace(self, leaf=np.zeros(0, dtype=np.int64)).reordered(np.flatnonzero(~self.live))
        return replace(part, live=np.arange(len(part.token)) > 0)

    def without_first(self) -> PrefixTree:
        """The same tree without edits at the first tokens; the tree itself if it has no other edits."""
        later = self.edited & (self.depth > 1)
        return replace(self, edited=later) if later.any() else self

    def order(self) -> np.ndarray:
        """The nodes in the order that a model needs: depth by depth, frozen nodes before live ones, and those that are
        edited in the same direction together."""
        return np.lexsort((self.parent, self.direction, self.edited, self.live, self.depth))

    def reordered(self, order: np.ndarray) -> PrefixTree:
        """The tree of some nodes, in the order given. The parent of each node is among them."""
        place = np.full(len(self.token), -1)
        place[order] = np.arange(len(order))
        parent = self.parent[order]
        return PrefixTree(
            token=self.token[order],
            parent=np.where(parent >= 0, place[parent], -1),
            depth=self.depth[order],
            direction=self.direction[order],
            edited=self.edited[order],
            live=self.live[order],
            leaf=place[self.leaf],
            source=None if self.source is None else self.source[order],
        )

    def levels(self, device: torch.device | str = "cpu") -> list[Level]:
        """The levels from depth 1. The root, at depth 0, has no level."""
        places: list[tuple[int, int, int]] = []
        arrays: list[np.ndarray] = []
        above = 0
        for rows in self._depths():
            start, stop = rows.start, rows.stop
            live = start + int((~self.live[start:stop]).sum())
            parent = self.parent[live:stop] - above
            source, up = np.unique(parent, return_inverse=True)
            places.append((start, live, stop))
            arrays += [self.token[live:stop], parent, source, up]
            above = start
        arrays.append(np.arange(len(self.token)))
        # One copy to the device: a GPU needs as long for a few numbers as for thousands.
        *tensors, nodes = torch.as_tensor(np.concatenate(arrays), device=device).split(list(map(len, arrays)))
        edited = np.where(self.edited, self.direction, -1)
        return [
            Level(start, live, stop, token, parent, source, up, spans_of(edited[live:stop], nodes[live:stop]))
            for (start, live, stop), token, parent, source, up in zip(
                places, tensors[::4], tensors[1::4], tensors[2::4], tensors[3::4], strict=True
            )
        ]


def spans_of(
    direction: np.ndarray, nodes: Int[Tensor, " rows"], repeated: np.ndarray | None = None
) -> tuple[Span, ...]:
    """The ranges of equal directions in a sorted array, with `repeated` states last. -1 is no direction. `nodes` are
    those of the rows."""
    spans = []
    for value in np.unique(direction[direction >= 0]):
        where = np.flatnonzero(direction == value)
        start, stop = int(where[0]), int(where[-1]) + 1
        again = 0 if repeated is None else int(repeated[where].sum())
        spans.append(Span(start, stop, int(value), again, nodes[start:stop]))
    return tuple(spans)
