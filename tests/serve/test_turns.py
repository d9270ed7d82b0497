"""One computation and one search at a time, a bounded queue, and a search whose output cannot stop the reading."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

pytest.importorskip("starlette")

from pivotal.errors import PivotalError
from pivotal.serve.app import Busy, ModelQueue
from pivotal.serve.requests import Start
from pivotal.serve.search import LiveSearch

T = TypeVar("T")

NOISE = """
print(3)
print([1])
print('{"a": 1}')
print('{"kind": 3}')
print('[' * 100_000)
print('x' * 3_000_000)
print('{"kind": "said", "text": "still there"}')
"""


def run(scene: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a scene in a thread of its own: the browser of other tests may have a loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(scene())).result()


def told(program: str) -> list[dict[str, Any]]:
    """The events of a search whose process runs this program."""

    async def scene() -> list[dict[str, Any]]:
        search = LiveSearch(program=(sys.executable, "-c", program))
        number = await search.start(Start())
        return [event async for _, event in search.events(number) if event is not None]

    return run(scene)


def test_what_a_library_prints_is_no_event() -> None:
    assert told(NOISE + """print('{"kind": "done", "path": "there"}')""") == [
        {"kind": "said", "text": "still there"},
        {"kind": "done", "path": "there"},
    ]


def test_a_process_that_dies_is_told_with_its_last_line() -> None:
    (end,) = told("import sys; sys.exit('no more')")
    assert end["kind"] == "failed" and "unexpectedly (1). no more" in end["text"]


def test_two_requests_at_once_start_one_search() -> None:
    async def scene() -> list[Any]:
        search = LiveSearch(program=(sys.executable, "-c", "input(); import time; time.sleep(60)"))
        started = await asyncio.gather(*(search.start(Start()) for _ in range(3)), return_exceptions=True)
        search.cancel()
        assert await search.close()
        return started

    first, *others = run(scene)
    assert first == 1 and all(isinstance(other, PivotalError) for other in others)


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
