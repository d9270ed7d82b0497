"""The nodes of a PrefixTree as rows of tokens, for models that read whole sequences at once.

*Packed*: all nodes are one row. Each node has the position of its depth, and an attention mask lets it see itself and
its ancestors. Every distinct prefix is computed once. This works for models whose layers access other positions
through masked attention only. *Rows*: one padded row per longest prefix, for any causal model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pivotal.models.edits import Edit
from pivotal.models.tensors import wide
from pivotal.models.tree import PrefixTree, Span, spans_of


@dataclass(frozen=True, slots=True)
class TreePart:
    """Some longest prefixes of a tree, and all nodes on the paths to them. The states of `own` are read here."""

    ends: np.ndarray
    nodes: np.ndarray
    own: np.ndarray


@dataclass(frozen=True, slots=True)
class Layout:
    """Rows of tokens. A *place* is the index of a token, counted row by row."""

    tokens: Int[Tensor, "rows steps"]
    positions: Int[Tensor, "rows steps"]
    sees: Bool[Tensor, "steps keys"] | None
    """Packed: the keys that each step attends to, those of `before` first. None: the model's own causal mask."""
    spans: tuple[Span, ...]
    """The edited places, or ranges of `edited` if that is set."""
    edited: Int[Tensor, " edited"] | None
    read: Int[Tensor, " nodes"]
    """The place of each node of the part's `own`."""
    live_rows: Int[Tensor, " nodes"]
    """The rows of the same nodes in a model's `states`."""
    before: Layout | None = None
    """The tokens before the first edit, whose keys and values can be cached."""
    nodes: Int[Tensor, " places"] | None = None
    """The node of each place, if every place is a node."""

    @property
    def places(self) -> int:
        """The number of places."""
        return self.tokens.numel()

    def apply(self, edit: Edit, site: str, runs: int, h: Tensor) -> Tensor:
        """Apply an edit at a site. `h` has one row per run and place, run by run, in the shape that the model uses."""
        flat = h.reshape(runs, self.places, h.shape[-1]).transpose(0, 1)
        number = wide(flat)
        if self.edited is None:
            new = edit(site, self.spans, number)
        else:
            new = number.index_copy(0, self.edited, edit(site, self.spans, number[self.edited]))
        return new.transpose(0, 1).contiguous().view(h.shape).to(h.dtype)

    def pick(self, h: Float[Tensor, "..."], runs: int) -> Float[Tensor, "nodes runs width"]:
        """The states of the nodes of the part's `own`."""
        return h.reshape(runs, self.places, h.shape[-1]).transpose(0, 1).index_select(0, self.read)


def parts(tree: PrefixTree, most: int, *, shared: bool) -> list[TreePart]:
    """Divide a tree into parts of at most `most` tokens. A longer prefix is a part of its own.

    With `shared`, a node on the paths to several ends counts once, as in a packed row.
    """
    chosen, taken = [], np.zeros(len(tree.token), dtype=bool)
    ends: list[int] = []
    inside: set[int] = set()
    tokens = 0

    def close() -> TreePart:
        nodes = np.array(sorted(inside))
        own = nodes[tree.live[nodes] & ~taken[nodes]]
        taken[own] = True
        return TreePart(np.array(ends), nodes, own)

    for end in _ends(tree):
        path = tree.path(end)
        new = sum(node not in inside for node in path) if shared else len(path)
        if ends and tokens + new > most:
            chosen.append(close())
            ends, inside, tokens = [], set(), 0
            new = len(path)
        ends.append(end)
        inside.update(path)
        tokens += new
    chosen.append(close())
    return chosen


def packed(
    tree: PrefixTree, part: TreePart, priming: Sequence[int], device: torch.device, *, cached: bool
) -> Layout:
    """One row for all nodes. With `cached`, the priming and the frozen nodes are a separate layout, `before`."""
    edited = np.where(tree.edited[part.nodes], tree.direction[part.nodes], -1)
    repeated = ~np.isin(part.nodes, part.own)
    order = np.lexsort((tree.depth[part.nodes], repeated, edited, tree.live[part.nodes]))
    nodes, edited, repeated = part.nodes[order], edited[order], repeated[order]
    first = len(priming)
    place = np.full(len(tree.token), first - 1)  # the root is the last token of the priming
    place[nodes] = first + np.arange(len(nodes))
    above = np.concatenate([np.arange(first) - 1, place[tree.parent[nodes]]])
    tokens = np.concatenate([np.array(priming, dtype=np.int64), tree.token[nodes]])
    positions = np.concatenate([np.arange(first), first - 1 + tree.depth[nodes]])
    sees = _ancestors(above)
    split = first + int((~tree.live[nodes]).sum()) if cached else 0

    def layout(rows: slice, keys: slice, **rest: object) -> Layout:
        return Layout(
            tokens=torch.as_tensor(tokens[None, rows], device=device),
            positions=torch.as_tensor(positions[None, rows], device=device),
            sees=torch.as_tensor(sees[rows, keys], device=device),
            edited=None,
            **rest,  # type: ignore[arg-type]
        )

    none = torch.zeros(0, dtype=torch.int64, device=device)
    at = torch.as_tensor(np.concatenate([np.full(first, -1), nodes]), device=device)
    before = None
    if split:
        early = slice(0, split)
        before = layout(early, early, spans=(), read=none, live_rows=none)
    return layout(
        slice(split, None),
        slice(None),
        spans=spans_of(
            np.concatenate([np.full(first, -1), edited])[split:],
            at[split:],
            np.concatenate([np.full(first, False), repeated])[split:],
        ),
        read=torch.as_tensor(place[part.own] - split, device=device),
        live_rows=torch.as_tensor(tree.live_row[part.own], device=device),
        before=before,
        nodes=at[split:] if split >= first else None,
    )


def rows(tree: PrefixTree, part: TreePart, priming: Sequence[int], device: torch.device) -> Layout:
    """One row per longest prefix, padded on the right, where a causal model does not see the padding."""
    first = len(priming)
    steps = first + int(tree.depth[part.ends].max())
    tokens = np.zeros((len(part.ends), steps), dtype=np.int64)
    tokens[:, :first] = priming
    edited, repeated = np.full(tokens.shape, -1), np.ones(tokens.shape, dtype=bool)
    nodes = np.full(tokens.shape, -1)
    place = np.full(len(tree.token), -1)
    own = np.zeros(len(tree.token), dtype=bool)
    own[part.own] = True
    for row, end in enumerate(part.ends):
        path = np.array(tree.path(int(end)))
        at = first - 1 + tree.depth[path]
        tokens[row, at] = tree.token[path]
        nodes[row, at] = path
        edited[row, at] = np.where(tree.edited[path], tree.direction[path], -1)
        repeated[row, at] = ~own[path] | (place[path] >= 0)
        place[path] = row * steps + at
    flat, again = edited.reshape(-1), repeated.reshape(-1)
    order = np.lexsort((again, flat))
    order = order[flat[order] >= 0]
    return Layout(
        tokens=torch.as_tensor(tokens, device=device),
        positions=torch.arange(steps, device=device).expand(len(tokens), -1),
        sees=None,
        spans=spans_of(flat[order], torch.as_tensor(nodes.reshape(-1)[order], device=device), again[order]),
        edited=torch.as_tensor(order, device=device),
        read=torch.as_tensor(place[part.own], device=device),
        live_rows=torch.as_tensor(tree.live_row[part.own], device=device),
    )


def _ends(tree: PrefixTree) -> Iterator[int]:
    """The nodes without children, in depth-first order."""
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(tree.parent.tolist()):
        if node:
            children.setdefault(parent, []).append(node)
    waiting = [0]
    while waiting:
        node = waiting.pop()
        below = children.get(node)
        if below:
            waiting.extend(reversed(below))
        elif node:
            yield node


def _ancestors(above: np.ndarray) -> np.ndarray:
    """A matrix (places x places): whether the second place is the first or one of its ancestors."""
    places = np.arange(len(above))
    sees = np.zeros((len(above), len(above)), dtype=bool)
    at = places.copy()
    while len(places):
        sees[places, at] = True
        at = above[at]
        places, at = places[at >= 0], at[at >= 0]
    return sees
