"""The tree against the naive definition: a node is a distinct (direction, cue, tokens) from the edit on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

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
        return Examples(
            [self.sequences[i] for i in chosen],
            [self.cues[i] for i in chosen],
            [self.directions[i] for i in chosen],
            self.steps,
        )

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


def path(tree: PrefixTree, node: int) -> list[int]:
    """The nodes from depth 1 down to this one."""
    nodes = []
    while node > 0:
        nodes.append(node)
        node = int(tree.parent[node])
    return nodes[::-1]


@given(examples())
@SOME
def test_every_leaf_spells_its_prefix(given: Examples) -> None:
    tree = given.tree()
    for e, tokens in enumerate(given.sequences):
        nodes = path(tree, int(tree.leaf[e]))
        assert tree.token[nodes].tolist() == tokens
        assert tree.live[nodes].tolist() == [given.live(e, p) for p in range(len(tokens))]
        assert tree.edited[nodes].tolist() == [given.edited(e, p) for p in range(len(tokens))]
        marked = given.steps is not None
        expected = [given.directions[e] if marked and given.live(e, p) else -1 for p in range(len(tokens))]
        assert tree.direction[nodes].tolist() == expected
    assert tree.lengths.tolist() == [len(s) for s in given.sequences]


@given(examples())
@SOME
def test_there_is_one_node_per_distinct_key(given: Examples) -> None:
    tree = given.tree()
    node_of: dict[tuple[Any, ...], int] = {}
    for e, keys in enumerate(given.keys()):
        for key, node in zip(keys, path(tree, int(tree.leaf[e])), strict=True):
            assert node_of.setdefault(key, node) == node
    assert len(tree) == len(node_of) == len(set(node_of.values()))
    live = {given.key(e, p) for e, s in enumerate(given.sequences) for p in range(len(s)) if given.live(e, p)}
    assert tree.n_live == len(live)
    assert sorted(tree.live_row[tree.live].tolist()) == list(range(tree.n_live))
    assert (tree.live_row[~tree.live] == -1).all() and not tree.live[0]


@given(examples(), st.data())
@SOME
def test_restrict_equals_building_from_the_subset(given: Examples, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(given.sequences) - 1), min_size=1, unique=True))
    part, built = given.tree().restrict(np.array(chosen)), given.take(chosen).tree()
    assert len(part) == len(built) and part.n_live == built.n_live

    def described(tree: PrefixTree) -> list[list[tuple[int, ...]]]:
        columns = (tree.token, tree.depth, tree.direction, tree.edited, tree.live)
        return [[tuple(int(c[n]) for c in columns) for n in path(tree, int(leaf))] for leaf in tree.leaf]

    # Order within a level may differ, so the trees are compared along the paths to their leaves.
    assert described(part) == described(built)
    assert sum(len(level.token) for level in part.levels()) == part.n_live


@given(examples(), st.data())
@SOME
def test_spread_sums_over_the_examples_below(given: Examples, data: st.DataObject) -> None:
    tree = given.tree()
    numbers = np.array(
        data.draw(st.lists(st.integers(-9, 9), min_size=len(tree.leaf), max_size=len(tree.leaf)))
    )
    naive = np.zeros(len(tree) + 1)
    for leaf, number in zip(tree.leaf, numbers, strict=True):
        naive[[0, *path(tree, int(leaf))]] += number
    assert np.allclose(tree.spread(numbers), naive)


@given(examples())
@SOME
def test_levels_are_what_a_model_needs_to_step(given: Examples) -> None:
    tree = given.tree()
    levels = tree.levels()
    assert [level.start for level in levels] == [1, *(level.stop for level in levels)][: len(levels)]
    assert levels[-1].stop == len(tree) + 1
    above = 0
    for depth, level in enumerate(levels, start=1):
        rows = slice(level.live, level.stop)
        assert (tree.depth[level.start : level.stop] == depth).all()
        assert not tree.live[level.start : level.live].any() and tree.live[rows].all()
        assert level.token.tolist() == tree.token[rows].tolist()
        # Parents are named relative to the level above, whose rows are frozen ones first.
        assert (level.parent.numpy() + above == tree.parent[rows]).all()
        assert (tree.depth[tree.parent[rows]] == depth - 1).all()
        assert (level.source[level.up] == level.parent).all()
        assert len(set(level.source.tolist())) == len(level.source)
        covered = np.full(level.stop - level.live, -1)
        for span in level.spans:
            assert (covered[span.start : span.stop] == -1).all()
            covered[span.start : span.stop] = span.direction
        assert (covered == np.where(tree.edited[rows], tree.direction[rows], -1)).all()
        above = level.start


@given(examples())
@SOME
def test_the_frozen_part_is_what_stands_before_the_cues(given: Examples) -> None:
    tree = given.tree()
    part = tree.frozen_part()
    before = {
        given.key(e, p) for e, s in enumerate(given.sequences) for p in range(len(s)) if not given.live(e, p)
    }
    assert len(part) == part.n_live == len(before) == len(tree) - tree.n_live
    # Its levels line up with the frozen rows of the whole tree's, so that their states can be looked up by place.
    frozen = [level.live - level.start for level in tree.levels()]
    mine = [level.stop - level.start for level in part.levels()]
    assert mine == [n for n in frozen if n]


def test_pairs_with_one_prefix_share_all_nodes() -> None:
    tree = PrefixTree.build([[1, 2, 3]] * 4, [1] * 4, [0, 0, 1, 1], "single")
    assert len(tree) == 1 + 2 + 2 and tree.n_live == 4
    assert len(PrefixTree.build([[1, 2, 3]] * 4)) == 3
