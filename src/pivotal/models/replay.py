"""A function of tensors of fixed shapes, recorded once as a CUDA graph and then replayed.

A replay launches all kernels of the function at once. It reads its inputs at the addresses of the recording, so inputs
are copied there first, and what the function returns is overwritten by the next call. All batches of a recording
therefore need tensors of the same shapes (`padded_trees`).
"""

from __future__ import annotations

import copy
import gc
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from pivotal.errors import in_short

T = TypeVar("T")


class Unrecordable(Exception):
    """Why a function that can be run cannot be recorded."""


def warn_unrecordable(reason: str) -> None:
    """Tell the user, once for each reason, that updates are slower than they could be."""
    warnings.warn(
        f"The updates cannot be replayed as a CUDA graph. They are slower, but compute the same ({reason}).",
        stacklevel=1,  # so that Python shows the same text once
    )


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
        views = {dtype: iter(places) for dtype, places in self._places.items()}
        # What is in the memo of a copy already is not copied.
        return copy.deepcopy(self._like, {id(t): next(views[t.dtype]) for t in tensors_of(self._like)})


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

    A function that draws from a generator of its own (`random`) gets memory of its own too, so that its replays may run
    beside others. Call it in a stream of its own: recordings of one stream share the memory that cuBLAS works in.
    """

    def __init__(self, device: torch.device | None, random: torch.Generator | None = None) -> None:
        self._device, self._random = device, random
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
                graph, self._returned = _recorded(function, self._random)
                graph.replay()
                self._graph = graph
            else:
                with _on_side_stream():
                    self._returned = function()
                self._warm = True
        returned: T = self._returned
        return returned

    def or_run(self, function: Callable[[], T]) -> T:
        """The same. If torch cannot record the function, this and all later calls run it."""
        try:
            return self(function)
        except Unrecordable as error:
            warn_unrecordable(in_short(error))
            self._device = None
            return function()


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
    """Within the block, work on a stream that can be recorded: the current one, or another if it is the default."""
    usual, other = torch.cuda.current_stream(), _stream(torch.cuda.current_device())
    if usual != torch.cuda.default_stream():
        yield
        return
    other.wait_stream(usual)
    with torch.cuda.stream(other):
        yield
    usual.wait_stream(other)


def _recorded(function: Callable[[], T], random: torch.Generator | None) -> tuple[torch.cuda.CUDAGraph, T]:
    """Record a function without running its kernels. Raise Unrecordable if torch refuses."""
    graph, collects = torch.cuda.CUDAGraph(), gc.isenabled()
    torch.cuda.synchronize()
    if random is None:
        pool = _owner_of_memory(torch.cuda.current_device()).pool()
    else:
        pool = torch.cuda.graph_pool_handle()
        graph.register_generator_state(random)
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
