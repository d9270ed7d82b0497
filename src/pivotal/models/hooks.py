"""Edits by hooks: attached for one pass and always removed.

All threads share the modules that hooks are attached to. Code that attaches hooks, or replaces a forward function,
holds the lock of the model (`lock_of`) meanwhile. Several threads can therefore use one model; their passes take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Lock, RLock
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import Tensor, nn

from pivotal.errors import PivotalError
from pivotal.units import Site

_LOCKS: WeakKeyDictionary[nn.Module, AbstractContextManager[object]] = WeakKeyDictionary()
_NEW_LOCK = Lock()
_LENT: WeakSet[nn.Module] = WeakSet()
"""The models that other code runs at present, with hooks attached by `attached`."""


def lock_of(model: nn.Module) -> AbstractContextManager[object]:
    """The lock of a model. Two adapters of the same module have the same lock."""
    with _NEW_LOCK:
        return _LOCKS.setdefault(model, RLock())


@dataclass(frozen=True, slots=True)
class Tap:
    """Where a site is computed: the first input of a module, or its (first) output."""

    site: Site
    module: nn.Module
    side: str
    """`input` or `output`."""
    block: int = 0
    """The index of the block that contains it."""
    axis: int = -1
    """The axis of the units: the last, or the second for convolutions."""


def edited(taps: Sequence[Tap], apply: Callable[[str, Tensor], Tensor]) -> AbstractContextManager[None]:
    """Within the block, replace the activations at the taps by `apply(site, h)`."""

    def run(tap: Tap, h: Tensor) -> Tensor:
        return apply(tap.site.name, h.movedim(tap.axis, -1)).movedim(-1, tap.axis)

    return hooked(attach(tap, partial(run, tap)) for tap in taps)


def attach(tap: Tap, run: Callable[[Tensor], Tensor]) -> Any:
    """Replace the activations at a tap by `run(h)`. Returns the handle that removes the hook."""

    def before(_: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
        return with_first_input(run(first_input(args, kwargs)), args, kwargs)

    def output(_: nn.Module, args: Any, out: Any) -> Any:
        h = run(first_of(out))
        return type(out)((h, *out[1:])) if isinstance(out, tuple | list) else h

    if tap.side == "input":
        return tap.module.register_forward_pre_hook(before, with_kwargs=True)
    return tap.module.register_forward_hook(output)


@contextmanager
def hooked(handles: Iterable[Any]) -> Iterator[None]:
    """Remove hooks, given by their handles, at the end of the block. The iterable may attach them as it goes."""
    with ExitStack() as stack:
        for handle in handles:
            stack.callback(handle.remove)
        yield


@contextmanager
def lent(model: nn.Module) -> Iterator[None]:
    """Within the block, other code runs the model with hooks attached. `check_not_lent` refuses passes of our own."""
    with lock_of(model):
        check_not_lent(model)
        _LENT.add(model)
        try:
            yield
        finally:
            _LENT.discard(model)


def check_not_lent(model: nn.Module) -> None:
    """Raise PivotalError if an intervention is attached to the model: it would change this pass as well."""
    if model in _LENT:
        raise PivotalError("Leave the block of `attached` first: its intervention changes this pass as well.")


@torch.no_grad()
def check_causal(logits_of: Callable[[Tensor], Tensor], tokens: Tensor, logits: Tensor) -> None:
    """Raise PivotalError if a later token changes the predictions of earlier positions."""
    other = tokens.clone()
    other[:, -1] = tokens[:, 1]
    worst = float((logits_of(other) - logits)[:, :-1].abs().max())
    if worst > (1e-5 if logits.dtype.itemsize >= 4 else 2e-2) * float(logits.abs().max()):
        raise PivotalError("Later words change the predictions of earlier ones here. Use a causal model.")


def first_input(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The first input of a module, by its place or by its name."""
    return args[0] if args else next(iter(kwargs.values()))


def with_first_input(
    h: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The inputs of a module with another first one."""
    return ((h, *args[1:]), kwargs) if args else ((), {**kwargs, next(iter(kwargs)): h})


def first_of(output: Any) -> Tensor:
    """The hidden state in a module's output: the output itself, or the first of several."""
    return output[0] if isinstance(output, tuple | list) else output


@contextmanager
def running(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Within the block, replace the module's forward function."""
    before = vars(module).get("forward")
    module.forward = forward
    try:
        yield
    finally:
        if before is None:
            del module.forward
        else:
            module.forward = before
