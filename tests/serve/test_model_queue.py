"""One computation at a time, a bounded queue, and a quick end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

from pivotal.serve.model_queue import Busy, ModelQueue

T = TypeVar("T")


def run(scene: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a scene in a thread of its own: the browser of other tests may have a loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(scene())).result()


def test_computations_take_turns() -> None:
    inside, most = 0, 0

    def compute() -> int:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        inside -= 1
        return threading.get_ident()

    async def several() -> list[int]:
        queue = ModelQueue()
        return await asyncio.gather(*(queue.take(compute) for _ in range(20)))

    assert len(set(run(several))) == 1 and most == 1


def test_a_full_queue_and_an_ending_server_refuse() -> None:
    release, closing = threading.Event(), threading.Event()

    async def scene() -> list[str]:
        queue = ModelQueue(closing.is_set, most=2)
        waiting = [asyncio.create_task(queue.take(release.wait)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Busy, match="2 requests are waiting"):
            await queue.take(release.wait)
        closing.set()
        said = [str(one) for one in await asyncio.gather(*waiting, return_exceptions=True)]
        release.set()
        queue.close()
        return said

    assert run(scene) == ["The server is ending."] * 2
