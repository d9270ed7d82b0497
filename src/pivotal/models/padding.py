"""Trees of one shape: dummy nodes make the trees of all batches of a problem equally large at every depth.

A CUDA graph repeats the same kernels at the same addresses, so all its batches need tensors of the same shapes. A dummy
node has a token and a parent, so that any model can run it, but nothing is read from it: it changes no other node and
no gradient. At each depth, padded trees have as many frozen nodes, as many live nodes of each direction, edited and
not, and as many nodes with live children.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pivotal.models.tree import PrefixTree

_Class = tuple[int, bool, bool, int]
"""Depth, whether live, whether edited, direction: the order of the nodes of a tree."""


@dataclass(frozen=True, slots=True)
class Padded:
    """A tree with dummy nodes."""

    tree: PrefixTree
    node: np.ndarray
    """For each node of the original tree, its node here."""
    dummies: np.ndarray
    """The live nodes that were added."""


@dataclass(frozen=True)
class Shape:
    """The number of nodes of each class, and the number of nodes with live children above each depth."""

    nodes: dict[_Class, int]
    parents: dict[int, int]

    @staticmethod
    def of(trees: Sequence[PrefixTree]) -> Shape:
        """The least shape that every tree can be padded to."""
        classes = [_classes(tree) for tree in trees]
        above = [_parents(tree) for tree in trees]
        nodes = {kind: max(own[kind] for own in classes) for kind in sorted(set().union(*classes))}
        parents = {depth: max(own[depth] for own in above) for depth in set().union(*above)}
        # A tree with few parents at a depth needs as many dummies there as it lacks parents.
        for depth, wanted in parents.items():
            here = [kind for kind in nodes if kind[0] == depth and kind[1]]
            short = max(
                (wanted - own_parents[depth]) - sum(nodes[kind] - own[kind] for kind in here)
                for own, own_parents in zip(classes, above, strict=True)
            )
            nodes[here[-1]] += max(0, short)
        return Shape(nodes, parents)

    def __len__(self) -> int:
        """The number of nodes without the root."""
        return sum(self.nodes.values())

    def pad(self, tree: PrefixTree) -> Padded:
        """The tree with as many dummy nodes as the shape needs."""
        there, n = _classes(tree), len(tree.token)
        kinds = [kind for kind, wanted in self.nodes.items() for _ in range(wanted - there[kind])]
        depth, live, edited, direction = (
            np.array([kind[i] for kind in kinds], dtype=own.dtype)
            for i, own in enumerate((tree.depth, tree.live, tree.edited, tree.direction))
        )
        depths = np.concatenate([tree.depth, depth])
        is_live = np.concatenate([tree.live, live])
        parent = np.concatenate([tree.parent, np.full(len(kinds), -1)])
        for deep in np.unique(depth).tolist():
            above = np.flatnonzero(depths == deep - 1)
            new = n + np.flatnonzero(depth == deep)
            # The parent of a frozen node is frozen.
            parent[new] = above[~is_live[above]][0] if not is_live[above].all() else above[0]
            here = new[is_live[new]]
            used = np.unique(parent[np.flatnonzero(is_live[:n] & (depths[:n] == deep))])
            unused = np.setdiff1d(above, used)[: self.parents.get(deep, 0) - len(used)]
            parent[here] = (used if len(used) else unused)[0]
            parent[here[: len(unused)]] = unused
        order = np.lexsort(
            (
                parent,
                np.concatenate([tree.direction, direction]),
                np.concatenate([tree.edited, edited]),
                is_live,
                depths,
            )
        )
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        made = PrefixTree(
            token=np.concatenate([tree.token, np.full(len(kinds), tree.token[-1])])[order],
            parent=np.where(parent[order] >= 0, place[parent[order]], -1),
            depth=depths[order],
            direction=np.concatenate([tree.direction, direction])[order],
            edited=np.concatenate([tree.edited, edited])[order],
            live=is_live[order],
            leaf=place[tree.leaf],
        )
        return Padded(made, place[:n], np.sort(place[n:][live]))


def _classes(tree: PrefixTree) -> Counter[_Class]:
    columns = (tree.depth, tree.live, tree.edited, tree.direction)
    return Counter(zip(*(column[1:].tolist() for column in columns), strict=True))


def _parents(tree: PrefixTree) -> Counter[int]:
    """For each depth, the number of distinct parents of its live nodes."""
    parents = np.unique(tree.parent[tree.live])
    return Counter((tree.depth[parents] + 1).tolist())
