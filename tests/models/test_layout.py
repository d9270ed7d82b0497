from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotal.models.layout import Layout, packed, parts, rows
from pivotal.models.tree import PrefixTree

CPU = torch.device("cpu")
SENTENCES = st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=5), min_size=1, max_size=12)


def tree_of(sentences: list[list[int]], steps: str) -> PrefixTree:
    cues = [len(sentence) // 2 for sentence in sentences]
    return PrefixTree.build(sentences, cues, [i % 2 for i in range(len(sentences))], steps)  # type: ignore[arg-type]


def path(tree: PrefixTree, node: int) -> list[int]:
    tokens: list[int] = []
    while node:
        tokens.insert(0, int(tree.token[node]))
        node = int(tree.parent[node])
    return tokens


@settings(max_examples=60, deadline=None)
@given(SENTENCES, st.sampled_from(["every", "single"]), st.integers(1, 20), st.booleans())
def test_parts_have_every_live_node_once_and_keep_to_their_size(
    sentences: list[list[int]], steps: str, most: int, shared: bool
) -> None:
    tree = tree_of(sentences, steps)
    found = parts(tree, most, shared=shared)
    own = np.concatenate([part.own for part in found])
    assert sorted(own.tolist()) == np.flatnonzero(tree.live).tolist()
    for part in found:
        size = len(part.nodes) if shared else int(tree.depth[part.ends].sum())
        assert size <= most or len(part.ends) == 1
        above = {int(tree.parent[node]) for node in part.nodes} - {0}
        assert above <= set(part.nodes.tolist()), "a node comes with all that stands before it"


def sees(layout: Layout, place: int) -> list[int]:
    """The tokens that a place of a packed row can see, in the order of their positions."""
    assert layout.sees is not None
    before = layout.before
    tokens = layout.tokens[0] if before is None else torch.cat([before.tokens[0], layout.tokens[0]])
    at = layout.positions[0] if before is None else torch.cat([before.positions[0], layout.positions[0]])
    seen = layout.sees[place].nonzero()[:, 0]
    assert at[seen].sort().values.tolist() == list(range(len(seen))), "one token at each position"
    return tokens[seen[at[seen].argsort()]].tolist()


@settings(max_examples=60, deadline=None)
@given(SENTENCES, st.sampled_from(["every", "single"]), st.sampled_from([(), (9,), (9, 8)]), st.booleans())
def test_a_packed_node_sees_its_own_sentence(
    sentences: list[list[int]], steps: str, priming: tuple[int, ...], cached: bool
) -> None:
    tree = tree_of(sentences, steps)
    (part,) = parts(tree, 1000, shared=True)
    layout = packed(tree, part, priming, CPU, cached=cached)
    for node, place in zip(part.own.tolist(), layout.read.tolist(), strict=True):
        assert sees(layout, place) == [*priming, *path(tree, node)]
    edited = {place: span.direction for span in layout.spans for place in range(span.start, span.stop)}
    expected = {
        place: int(tree.direction[node])
        for node, place in zip(part.own.tolist(), layout.read.tolist(), strict=True)
        if tree.edited[node]
    }
    assert edited == expected


@pytest.mark.parametrize("steps", ["every", "single"])
def test_a_row_holds_a_sentence_and_every_copy_of_an_edited_node_is_edited(steps: str) -> None:
    tree = tree_of([[1, 2, 3], [1, 2, 1, 1], [2], [1, 2]], steps)
    (part,) = parts(tree, 1000, shared=False)
    layout = rows(tree, part, (9,), CPU)
    flat = layout.tokens.reshape(-1)
    for node, place in zip(part.own.tolist(), layout.read.tolist(), strict=True):
        start = place - place % layout.tokens.shape[1]
        assert flat[start : place + 1].tolist() == [9, *path(tree, node)]
    assert layout.edited is not None
    copies = sum(int(tree.edited[node]) for end in part.ends for node in _nodes(tree, int(end)))
    assert len(layout.edited) == copies == sum(span.stop - span.start for span in layout.spans)


def _nodes(tree: PrefixTree, node: int) -> list[int]:
    return [] if node == 0 else [*_nodes(tree, int(tree.parent[node])), node]
