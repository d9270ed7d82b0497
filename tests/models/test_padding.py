"""Trees that are padded to one shape."""

from __future__ import annotations

import numpy as np

from pivotal.models.replay import Shape
from pivotal.models.tree import PrefixTree


def test_frozen_nodes_are_padded_at_a_depth_where_no_tree_has_live_ones() -> None:
    """Before the edited word all nodes are frozen, and batches have different numbers of them."""
    few = PrefixTree.build([(1, 2, 3)], [2], [0], "single")
    many = PrefixTree.build([(1, 2, 3), (4, 5, 6), (4, 6, 7)], [2, 2, 2], [0, 1, 0], "single")
    shape = Shape.of([few, many])
    assert all(not live for depth, live, _, _ in shape.nodes if depth < 3)
    for tree in (few, many):
        padded = shape.pad(tree)
        assert len(padded.tree) == len(shape)
        np.testing.assert_array_equal(padded.tree.token[padded.node], tree.token)
        np.testing.assert_array_equal(padded.tree.live[padded.node], tree.live)
