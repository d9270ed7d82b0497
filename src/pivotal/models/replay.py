"""A function of tensors of fixed shapes, recorded once as a CUDA graph and then replayed.

A replay launches all kernels of the function at once. It reads its inputs at the addresses of the recording, so inputs
are copied there first, and what the function returns is overwritten by the next call.

All batches of a recording therefore need tensors of the same shapes. Dummy nodes make the trees of all batches of a
problem equally large at every depth. A dummy node has a token and a parent, so that any model can run it, but nothing
is read from it: it changes no other node and no gradient. At each depth, all padded trees have the same number of
frozen nodes, of live nodes of each direction (edited and not edited), and of nodes with live children.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from pivotal.errors import in_short
from pivotal.models.tree import PrefixTree

T = TypeVar("T")


class Unrecordable(Exception):
    """Why a function that can be run cannot be recorded."""


def tensors_of(data: Any) -> list[Tensor]:
    """The tensors in nested lists, tuples, dictionaries and dataclasses, in a fixed order."""
    if isinstance(data, Tensor):
        return [data]
    return [tensor for part in _parts(data) for tensor in tensors_of(part)]


def shape_of(data: Any) -> Any:
    """What two data must have in common for one recording: the containers, and the shapes and numbers in them."""
    if isinstance(data, Tensor):
        return data.shape, data.dtype, data.device
    if is_dataclass(data) or isinstance(data, list | tuple | dict):
        keys = tuple(data) if isinstance(data, dict) else ()
        return type(data), keys, tuple(shape_of(part) for part in _parts(data))
    return data


def _parts(data: Any) -> list[Any]:
    if isinstance(data, dict):
        return list(data.values())
    if isinstance(data, list | tuple):
        return list(data)
    if is_dataclass(data):
        return [getattr(data, field.name) for field in fields(data)]
    return []


def _rebuilt(data: Any, tensors: Iterator[Tensor]) -> Any:
    """The same nested data with other tensors. Its containers are new."""
    if isinstance(data, Tensor):
        return next(tensors)
    parts = [_rebuilt(part, tensors) for part in _parts(data)]
    if isinstance(data, dict):
        return dict(zip(data, parts, strict=True))
    if isinstance(data, list | tuple):
        return type(data)(parts)
    if is_dataclass(data) and not isinstance(data, type):
        return type(data)(**{field.name: part for field, part in zip(fields(data), parts, strict=True)})
    return data


class Buffers(Generic[T]):
    """Nested data whose tensors stay at the same addresses. All tensors of one number format are views of one flat
    tensor, so that `load` is one copy for each format."""

    def __init__(self, like: T) -> None:
        self._shape, self._like = shape_of(like), like
        self._flat: dict[torch.dtype, Tensor] = {}
        self._places: dict[torch.dtype, list[Tensor]] = {}
        """Views of `_flat`, in the shapes of the tensors and in their order."""
        for dtype, tensors in _by_dtype(like).items():
            sizes = [size for tensor in tensors for size in (tensor.numel(), _rest(tensor.numel()))]
            self._flat[dtype] = tensors[0].new_zeros(sum(sizes))
            parts = self._flat[dtype].split(sizes)[::2]
            self._places[dtype] = [part.view(t.shape) for part, t in zip(parts, tensors, strict=True)]
        self.fill(like)

    def fits(self, data: T) -> bool:
        """Whether other data has the same shape."""
        return bool(shape_of(data) == self._shape)

    def fill(self, data: T) -> None:
        """Copy other data of the same shape."""
        for dtype, tensors in _by_dtype(data).items():
            torch._foreach_copy_(self._places[dtype], tensors)

    def save(self) -> dict[torch.dtype, Tensor]:
        """A copy of what is there, for `load`."""
        return {dtype: flat.clone() for dtype, flat in self._flat.items()}

    def load(self, saved: dict[torch.dtype, Tensor]) -> None:
        """Copy back what `save` returned."""
        for dtype, flat in saved.items():
            self._flat[dtype].copy_(flat)

    @property
    def data(self) -> T:
        """The data, in new containers."""
        places = {dtype: iter(views) for dtype, views in self._places.items()}
        rebuilt: T = _rebuilt(self._like, (next(places[tensor.dtype]) for tensor in tensors_of(self._like)))
        return rebuilt


def _by_dtype(data: Any) -> dict[torch.dtype, list[Tensor]]:
    by_dtype: dict[torch.dtype, list[Tensor]] = {}
    for tensor in tensors_of(data):
        by_dtype.setdefault(tensor.dtype, []).append(tensor)
    return by_dtype


def _rest(size: int) -> int:
    """The number of unused entries after a tensor. They align the next tensor as fast kernels need it."""
    return -size % 16


class Replay:
    """Calls a function that reads and writes tensors at fixed addresses.

    The first call runs it, which also prepares libraries. The second records it and replays the recording. Later calls
    replay the recording. Without a device to record on, every call runs it. What it returns is nested data of tensors.
    """

    def __init__(self, device: torch.device | None) -> None:
        self._device = device
        self._graph: torch.cuda.CUDAGraph | None = None
        self._returned: Any = None
        self._warm = False

    def __call__(self, function: Callable[[], T]) -> T:
        """Run, record or replay the function, which must be the same in every call. Raise Unrecordable if torch cannot
        record what it could run, for example because the function waits for a result of the GPU. Its kernels have then
        not been run."""
        if self._device is None:
            return function()
        with torch.cuda.device(self._device):
            if self._graph is not None:
                self._graph.replay()
            elif self._warm:
                graph, self._returned = _recorded(function)
                graph.replay()
                self._graph = graph
            else:
                with _on_side_stream():
                    self._returned = function()
                self._warm = True
        returned: T = self._returned
        return returned


@cache
def _owner_of_memory(device: int) -> torch.cuda.CUDAGraph:
    """A recording whose memory the others share: one of them runs at a time, and what it returns is read before the
    next. It is kept, because torch gives up memory that no recording uses, and refuses to record there again."""
    graph = torch.cuda.CUDAGraph()
    with _on_side_stream():
        graph.capture_begin(capture_error_mode="thread_local")
        torch.zeros(1, device=torch.device("cuda", device))
        graph.capture_end()
    return graph


@cache
def _stream(device: int) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


@contextmanager
def _on_side_stream() -> Iterator[None]:
    """Within the block, work on another stream, because the usual one cannot be recorded."""
    usual, other = torch.cuda.current_stream(), _stream(torch.cuda.current_device())
    other.wait_stream(usual)
    with torch.cuda.stream(other):
        yield
    usual.wait_stream(other)


def _recorded(function: Callable[[], T]) -> tuple[torch.cuda.CUDAGraph, T]:
    """Record a function without running its kernels. Raise Unrecordable if torch refuses."""
    graph, collects = torch.cuda.CUDAGraph(), gc.isenabled()
    torch.cuda.synchronize()
    pool = _owner_of_memory(torch.cuda.current_device()).pool()
    gc.disable()  # Python must not free other recordings meanwhile
    try:
        with _on_side_stream():
            graph.capture_begin(pool=pool, capture_error_mode="thread_local")
            try:
                returned = function()
            except BaseException:
                with suppress(RuntimeError):  # the recording is broken, and the first error says why
                    graph.capture_end()
                raise
            graph.capture_end()
    except RuntimeError as error:
        # The function has run before with the same shapes, so the recording must be what fails.
        raise Unrecordable(in_short(error)) from error
    finally:
        if collects:
            gc.enable()
    return graph, returned


# -- trees of one shape -----------------------------------------------------------------------------------------------

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
