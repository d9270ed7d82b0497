"""One computation at a time, and a bounded number of them waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pivotal.errors import PivotalError

T = TypeVar("T")

MOST_WAITING = 48
_GLANCE = 0.5
"""Seconds after which a request that waits looks whether the server is about to end."""


class Busy(PivotalError):
    """Too many requests are waiting."""


class ModelQueue:
    """Everything that touches a model runs in one thread, in the order of arrival. A model keeps caches, and a second
    computation at the same time would only make both slower."""

    def __init__(self, closing: Callable[[], bool] = lambda: False, most: int = MOST_WAITING) -> None:
        """`closing` says whether the server is about to end. Nothing new is computed then."""
        self._thread = ThreadPoolExecutor(1, "model")
        self._closing, self._most, self._waiting = closing, most, 0

    async def take(self, compute: Callable[[], T]) -> T:
        """The result of `compute`. Raises `Busy` if too many requests wait already, or if the server ends first."""
        if self._waiting >= self._most:
            raise Busy(f"{self._most} requests are waiting for the model already. Try again in a moment.")
        self._waiting += 1
        try:
            result = asyncio.get_running_loop().run_in_executor(self._thread, compute)
            while not (await asyncio.wait({result}, timeout=_GLANCE))[0]:
                if self._closing():
                    result.cancel()
                    raise Busy("The server is ending.")
            return result.result()
        finally:
            self._waiting -= 1

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
