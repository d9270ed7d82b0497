"""Stop a job by a signal: at once if nothing is lost, otherwise after the current step."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Interrupted(KeyboardInterrupt):
    """A signal stopped the job. The text says what was saved and how to resume."""

    def __init__(self, text: str = "", signum: int = signal.SIGINT) -> None:
        super().__init__(text)
        self.signum = signum


def saying(stop: KeyboardInterrupt, text: str) -> Interrupted:
    """The same interruption with another text."""
    return Interrupted(text, getattr(stop, "signum", signal.SIGINT))


def exit_code(stop: KeyboardInterrupt) -> int:
    """128 plus the signal number, as in a shell: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
    return 128 + saying(stop, "").signum


class Stop:
    """Whether a signal has asked the job to stop. See `signals`."""

    def __init__(self) -> None:
        self._deferred = False
        self._signum: int | None = None

    @property
    def requested(self) -> bool:
        return self._signum is not None

    def check(self) -> None:
        """Raise `Interrupted` if a stop was requested. Call this between two steps."""
        if self._signum is not None:
            raise Interrupted(signum=self._signum)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Within the block, the first signal only requests a stop, for `check`. A second signal stops at once."""
        self._deferred = True
        try:
            yield
        finally:
            self._deferred = False
        self.check()

    def handle(self, signum: int, _frame: FrameType | None) -> None:
        if not self._deferred or self.requested:
            raise Interrupted(signum=signum)
        self._signum = signum
        # Write without the console, because the interrupted code may hold its lock.
        with suppress(OSError):  # stderr may be closed
            os.write(2, b"\nStopping at the next safe place; Ctrl-C again stops at once.\n")


@contextmanager
def signals(handle: Callable[[int, FrameType | None], None] | None = None) -> Iterator[Stop]:
    """Turn SIGINT, SIGTERM and SIGHUP into `Interrupted`, at once or, inside `Stop.deferred`, between two steps.
    With `handle`, they call that function instead.

    Only the main thread can handle signals; in other threads this does nothing. An ignored signal stays ignored, such
    as SIGHUP under nohup. The previous handlers are restored at the end.
    """
    stop = Stop()
    before = {}
    if threading.current_thread() is threading.main_thread():
        for signum in SIGNALS:
            handler = signal.getsignal(signum)
            # None means a handler from outside of Python, which Python could not restore.
            if handler not in (signal.SIG_IGN, None):
                before[signum] = handler
                signal.signal(signum, handle or stop.handle)
    try:
        yield stop
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
