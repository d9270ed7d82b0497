"""The tree against the naive definition, a node for each distinct (direction, cue, tokens), and its layouts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotal.models.layout import Layout, packed, parts, rows
from pivotal.models.padded_trees import Shape
from pivotal.models.tree import PrefixTree
from pivotal.units import Steps

SOME = settings(max_examples=60, deadline=None)


@dataclass(frozen=True)
class Examples:
    sequences: list[list[int]]
    cues: list[int]
    directions: list[int]
    steps: Steps | None

    def tree(self) -> PrefixTree:
        return PrefixTree.build(self.sequences, self.cues, self.directions, self.steps)

    def take(self, chosen: list[int]) -> Examples:
        parts = ([part[i] for i in chosen] for part in (self.sequences, self.cues, self.directions))
        return Examples(*parts, self.steps)

    def live(self, example: int, position: int) -> bool:
        return self.steps != "single" or position >= self.cues[example]

    def edited(self, example: int, position: int) -> bool:
        return self.steps == "every" or (self.steps == "single" and position == self.cues[example])

    def key(self, example: int, position: int) -> tuple[Any, ...]:
        """What the state after this prefix depends on."""
        tokens = tuple(self.sequences[example][: position + 1])
        if self.steps is None or not self.live(example, position):
            return (tokens,)
        cue = self.cues[example] if self.steps == "single" else None
        return (tokens, self.directions[example], cue)

    def keys(self) -> list[list[tuple[Any, ...]]]:
        return [[self.key(e, p) for p in range(len(s))] for e, s in enumerate(self.sequences)]


@st.composite
def examples(draw: st.DrawFn) -> Examples:
    # Few tokens and short sequences: prefixes are shared often.
    sequences = draw(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=5), min_size=1, max_size=12))
    cues = [draw(st.integers(0, len(s) - 1)) for s in sequences]
    directions = [draw(st.integers(0, 1)) for _ in sequences]
    return Examples(sequences, cues, directions, draw(st.sampled_from(["single", "every", None])))


@given(examples())
@SOME
def test_every_leaf_spells_its_prefix(given):
    tree = given.tree()
    for e, tokens in enumerate(given.sequences):
        nodes = tree.path(int(tree.leaf[e]))
        assert tree.token[nodes].tolist() == tokens
        assert tree.live[nodes].tolist() == [given.live(e, p) for p in range(len(tokens))]
        assert tree.edited[nodes].tolist() == [given.edited(e, p) for p in range(len(tokens))]
        marked = given.steps is not None
        expected = [given.directions[e] if marked and given.live(e, p) else -1 for p in range(len(tokens))]
        assert tree.direction[nodes].tolist() == expected
    assert tree.lengths.tolist() == [len(s) for s in given.sequences]


@given(examples())
@SOME
def test_there_is_one_node_per_distinct_key(given):
    tree = given.tree()
    node_of: dict[tuple[Any, ...], int] = {}
    for e, keys in enumerate(given.keys()):
        for key, node in zip(keys, tree.path(int(tree.leaf[e])), strict=True):
            assert node_of.setdefault(key, node) == node
    assert len(tree) == len(node_of) == len(set(node_of.values()))
    live = {given.key(e, p) for e, s in enumerate(given.sequences) for p in range(len(s)) if given.live(e, p)}
    assert tree.n_live == len(live)
    assert sorted(tree.live_row[tree.live].tolist()) == list(range(tree.n_live))
    assert (tree.live_row[~tree.live] == -1).all() and not tree.live[0]


@given(examples(), st.data())
@SOME
def test_restrict_equals_building_from_the_subset(given, data):
    chosen = data.draw(st.lists(st.integers(0, len(given.sequences) - 1), min_size=1, unique=True))
    part, built = given.tree().restrict(np.array(chosen)), given.take(chosen).tree()
    assert len(part) == len(built) and part.n_live == built.n_live

    def described(tree: PrefixTree) -> list[list[tuple[int, ...]]]:
        columns = (tree.token, tree.depth, tree.direction, tree.edited, tree.live)
        return [[tuple(int(c[n]) for c in columns) for n in tree.path(int(leaf))] for leaf in tree.leaf]

    # Order within a level may differ, so the trees are compared along the paths to their leaves.
    assert described(part) == described(built)
    assert sum(len(level.token) for level in part.levels()) == part.n_live


@given(examples(), st.data())
@SOME
def test_spread_sums_over_the_examples_below(given, data):
    tree = given.tree()
    size = len(tree.leaf)
    numbers = np.array(data.draw(st.lists(st.integers(-9, 9), min_size=size, max_size=size)))
    naive = np.zeros(len(tree) + 1)
    for leaf, number in zip(tree.leaf, numbers, strict=True):
        naive[[0, *tree.path(int(leaf))]] += number
    assert np.allclose(tree.spread(numbers), naive)


CPU = torch.device("cpu")
SENTENCES = st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=5), min_size=1, max_size=12)


def tree_of(sentences: list[list[int]], steps: str) -> PrefixTree:
    cues = [len(sentence) // 2 for sentence in sentences]
    return PrefixTree.build(sentences, cues, [i % 2 for i in range(len(sentences))], steps)


@settings(max_examples=60, deadline=None)
@given(SENTENCES, st.sampled_from(["every", "single"]), st.integers(1, 20), st.booleans())
def test_parts_have_every_live_node_once_and_keep_to_their_size(sentences, steps, most, shared):
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
def test_a_packed_node_sees_its_own_sentence(sentences, steps, priming, cached):
    tree = tree_of(sentences, steps)
    (part,) = parts(tree, 1000, shared=True)
    layout = packed(tree, part, priming, CPU, cached=cached)
    for node, place in zip(part.own.tolist(), layout.read.tolist(), strict=True):
        assert sees(layout, place) == [*priming, *tree.token[tree.path(node)]]
    edited = {place: span.direction for span in layout.spans for place in range(span.start, span.stop)}
    expected = {
        place: int(tree.direction[node])
        for node, place in zip(part.own.tolist(), layout.read.tolist(), strict=True)
        if tree.edited[node]
    }
    assert edited == expected


@pytest.mark.parametrize("steps", ["every", "single"])
def test_a_row_holds_a_sentence_and_every_copy_of_an_edited_node_is_edited(steps):
    tree = tree_of([[1, 2, 3], [1, 2, 1, 1], [2], [1, 2]], steps)
    (part,) = parts(tree, 1000, shared=False)
    layout = rows(tree, part, (9,), CPU)
    flat = layout.tokens.reshape(-1)
    for node, place in zip(part.own.tolist(), layout.read.tolist(), strict=True):
        start = place - place % layout.tokens.shape[1]
        assert flat[start : place + 1].tolist() == [9, *tree.token[tree.path(node)]]
    copies = sum(int(tree.edited[node]) for end in part.ends for node in tree.path(int(end)))
    assert len(layout.edited) == copies == sum(span.stop - span.start for span in layout.spans)


def test_frozen_nodes_are_padded_at_a_depth_where_no_tree_has_live_ones():
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
