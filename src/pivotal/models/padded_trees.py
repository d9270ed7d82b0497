"""Trees of one shape, for batches that share a recording (`replay`).

Dummy nodes make the trees of all batches of a problem equally large at every depth. A dummy node has a token and a
parent, so that any model can run it, but nothing is read from it: it changes no other node and no gradient. At each
depth, all padded trees have the same number of frozen nodes, of live nodes of each direction (edited and not edited),
and of nodes with live children.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pivotal.models.tree import PrefixTree

_Class = tuple[int, bool, bool, int]
"""What the nodes of a class have in common: depth, whether they are live, whether they are edited, direction."""


@dataclass(frozen=True, slots=True)
class Padded:
    """A tree with dummy nodes."""

    tree: PrefixTree
    node: np.ndarray
    """For each node of the original tree, its node here."""


@dataclass(frozen=True)
class Shape:
    """The number of nodes of each class, and the number of nodes with live children above each depth."""

    nodes: dict[_Class, int]
    parents: dict[int, int]

    @staticmethod
    def of(trees: Sequence[PrefixTree]) -> Shape:
        """A shape that every tree can be padded to."""
        classes = [_classes(tree) for tree in trees]
        above = [_parents(tree) for tree in trees]
        nodes = {kind: max(own[kind] for own in classes) for kind in sorted(set().union(*classes))}
        parents = {depth: max(own[depth] for own in above) for depth in set().union(*above)}
        # A dummy child makes a node a parent, so a tree needs as many live dummies as it lacks parents.
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
        own, nodes = _classes(tree), len(tree.token)
        dummies = [kind for kind, wanted in self.nodes.items() for _ in range(wanted - own[kind])]
        depth, live, edited, direction = (
            np.concatenate([own, np.array([kind[i] for kind in dummies], dtype=own.dtype)])
            for i, own in enumerate((tree.depth, tree.live, tree.edited, tree.direction))
        )
        whole = PrefixTree(
            token=np.concatenate([tree.token, np.full(len(dummies), tree.token[-1])]),
            parent=np.concatenate([tree.parent, self._parents_of_dummies(tree.parent, depth, live)]),
            depth=depth,
            direction=direction,
            edited=edited,
            live=live,
            leaf=tree.leaf,
        )
        order = whole.order()
        return Padded(whole.reordered(order), np.argsort(order)[:nodes])

    def _parents_of_dummies(self, parent: np.ndarray, depth: np.ndarray, live: np.ndarray) -> np.ndarray:
        """A parent for each dummy. `parent` are those of the tree's own nodes, which come before the dummies."""
        nodes = len(parent)
        parents = np.full(len(depth) - nodes, -1)
        for deep in np.unique(depth[nodes:]).tolist():
            above = np.flatnonzero(depth == deep - 1)
            here = np.flatnonzero(depth[nodes:] == deep)
            # The parent of a frozen node is frozen.
            parents[here] = above[~live[above]][0] if not live[above].all() else above[0]
            here = here[live[nodes + here]]
            if not len(here):
                continue
            used = np.unique(parent[live[:nodes] & (depth[:nodes] == deep)])
            unused = np.setdiff1d(above, used)[: self.parents.get(deep, 0) - len(used)]
            parents[here] = (used if len(used) else unused)[0]
            parents[here[: len(unused)]] = unused
        return parents


def _classes(tree: PrefixTree) -> Counter[_Class]:
    columns = (tree.depth, tree.live, tree.edited, tree.direction)
    return Counter(zip(*(column[1:].tolist() for column in columns), strict=True))


def _parents(tree: PrefixTree) -> Counter[int]:
    """For each depth, the number of distinct parents of its live nodes."""
    parents = np.unique(tree.parent[tree.live])
    return Counter((tree.depth[parents] + 1).tolist())
