"""The updates of a search: passes over one batch after another, replayed as one CUDA graph where that is possible.

A batch is small. On a GPU, most of the time of an update therefore goes into launching its kernels one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from dataclasses import replace as replaced
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import torch
from jaxtyping import Int
from torch import Tensor

from pivotal.errors import in_short
from pivotal.models.replay import Replay, Unrecordable, warn_unrecordable
from pivotal.problem.batch import Batch
from pivotal.problem.fixed_batches import FixedBatches, Unfit
from pivotal.problem.problem import Problem

Inputs = TypeVar("Inputs")
Seen = TypeVar("Seen")
Drawn: TypeAlias = Int[Tensor, " nodes"] | None
"""Live nodes of a batch at which KL is measured; None if it is not."""
Differentiate: TypeAlias = Callable[[Batch, Drawn, Inputs], Seen]
Follow: TypeAlias = Callable[[Inputs, Seen], None]

How = Literal["auto", "never", "unrecorded"]
"""`auto` records on a GPU. `never` runs every batch in its own shape, one kernel after another. `unrecorded` runs
batches in one shape and reads the same buffers as a recording, but records nothing: that works on a CPU too."""


@dataclass
class Account:
    """How the passes inside a block of `recording` were run."""

    how: How
    recorded: int = 0
    """The number of searches or fits whose updates were replayed, or run in one shape."""
    reasons: list[str] = field(default_factory=list)
    """Why the others were not."""


_FEWEST = 20
"""The least number of updates for which batches are padded and recorded. A recording costs as much as two updates."""

_ACCOUNT: ContextVar[Account] = ContextVar("recording")


@contextmanager
def recording(how: How) -> Iterator[Account]:
    """Within the block, run passes in this way. For benchmarks and tests, which compare the ways."""
    token = _ACCOUNT.set(Account(how))
    try:
        yield _ACCOUNT.get()
    finally:
        _ACCOUNT.reset(token)


class Passes(Generic[Inputs, Seen]):
    """Passes over one batch after another, in one shape and replayed if possible."""

    def __init__(self, problem: Problem, prefixes: int, seed: int, runs: int, updates: int) -> None:
        """`prefixes` and `seed` name the batches of the problem. `runs` is the number of runs of a pass, and `updates`
        the number of calls to come."""
        self._problem, self._runs = problem, runs
        self.batches: Sequence[Batch] = problem.batches(prefixes, seed)
        self._account = _ACCOUNT.get(Account("auto"))
        self._device = problem.model.device if self._account.how == "auto" else None
        self._replay = Replay(self._device)
        self._given: _Given[Inputs] | None = None
        self._fixed: FixedBatches | None = None
        self.reason = _reason_not_to(self._account.how, problem.model.device, updates)
        """Why each batch is run in its own shape, one kernel after another; None if the batches are replayed."""
        if self.reason is None:
            self._fixed = problem.fixed_batches(prefixes, seed)
            self.reason = self._fixed.obstacle(runs)
        if self.reason is None:
            self._account.recorded += 1
        else:
            self._run_plainly(self.reason)

    @property
    def fixed(self) -> bool:
        """Whether all batches have one shape."""
        return self._fixed is not None

    def __call__(
        self,
        number: int,
        drawn: Drawn,
        inputs: Inputs,
        differentiate: Differentiate[Inputs, Seen],
        follow: Follow[Inputs, Seen],
    ) -> Seen:
        """Call `differentiate` and then `follow` for the batch of this number, the same two functions in every call.

        `differentiate(batch, drawn, inputs)` does the masked run and its backward pass and changes no state but the
        gradients, so that it can be repeated if memory runs out. `follow(inputs, seen)` changes the state, in place.
        `drawn` are live nodes of the batch. `inputs` is a dataclass of tensors and numbers; in a recording, the numbers
        are tensors too. Neither function may wait for the GPU. What `differentiate` returns is overwritten by the next
        call.
        """
        if self._fixed is not None:
            try:
                return self._replayed(self._fixed, number, drawn, inputs, differentiate, follow)
            except (Unfit, Unrecordable, torch.OutOfMemoryError) as error:
                self._abandon(self._fixed, error)
        batch = self.batches[number]
        seen = self._problem.as_memory_allows(lambda: differentiate(batch, drawn, inputs))
        follow(inputs, seen)
        return seen

    def _replayed(
        self,
        fixed: FixedBatches,
        number: int,
        drawn: Drawn,
        inputs: Inputs,
        differentiate: Differentiate[Inputs, Seen],
        follow: Follow[Inputs, Seen],
    ) -> Seen:
        if self._given is None:
            self._given = _Given(drawn, inputs, self._problem.model.device)
        given = self._given
        given.load(drawn, inputs)

        def update() -> Seen:
            here = None if given.drawn is None else fixed.rows[given.drawn]
            seen = differentiate(fixed.anew(), here, given.inputs)
            follow(given.inputs, seen)
            return seen

        work, nodes = self._problem.work, self._runs * self.batches[number].tree.n_live
        forward, backward = work.forward, work.backward
        try:
            fixed.load(number)
            seen = self._replay(update)
            forward, backward = forward + nodes, backward + nodes
        finally:
            work.forward, work.backward = forward, backward  # without dummy nodes, and with replays
        return seen

    def _abandon(self, fixed: FixedBatches, error: Exception) -> None:
        """Go on without a recording. Other errors are not caught, because running kernel by kernel would not avoid
        them."""
        reason = in_short(error)
        if not isinstance(error, Unfit):
            warn_unrecordable(reason)
        fixed.abandon(reason)
        self._account.recorded -= 1
        self._run_plainly(reason)

    def _run_plainly(self, reason: str) -> None:
        self._fixed = self._given = None
        self.reason = reason
        self._account.reasons.append(reason)


def _reason_not_to(how: How, device: torch.device, updates: int) -> str | None:
    """Why nothing should be recorded, whatever the batches are; None if there is no reason."""
    if how == "never":
        return "recording was switched off"
    if how == "auto" and device.type != "cuda":
        return "only a CUDA device can record"
    if how == "auto" and updates < _FEWEST:
        return f"a recording does not pay for {updates} updates"
    return None


class _Given(Generic[Inputs]):
    """The drawn nodes and the inputs of an update, as tensors that stay at the same addresses."""

    def __init__(self, drawn: Tensor | None, inputs: Inputs, device: torch.device) -> None:
        self.drawn = None if drawn is None else drawn.clone()
        tensors = {name: torch.as_tensor(value, device=device).clone() for name, value in _named(inputs)}
        self.inputs: Inputs = replaced(inputs, **tensors)  # type: ignore[type-var]

    def load(self, drawn: Tensor | None, inputs: Inputs) -> None:
        if self.drawn is not None:
            assert drawn is not None
            self.drawn.copy_(drawn)
        for name, value in _named(inputs):
            buffer = getattr(self.inputs, name)
            if isinstance(value, Tensor):
                buffer.copy_(value)
            else:
                buffer.fill_(value)


def _named(inputs: Any) -> list[tuple[str, Any]]:
    return [(one.name, getattr(inputs, one.name)) for one in fields(inputs)]
