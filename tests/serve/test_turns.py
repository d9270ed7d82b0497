"""One computation and one search at a time, and a search whose output cannot stop the reading."""

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

pytest.importorskip("starlette")

from pivotal import PivotalError
from pivotal.serve.requests import Start
from pivotal.serve.runs import LiveRuns
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


def test_what_a_library_prints_is_no_event():
    assert told(NOISE + """print('{"kind": "done", "path": "there"}')""") == [
        {"kind": "said", "text": "still there"},
        {"kind": "done", "path": "there"},
    ]


def test_a_process_that_dies_is_told_with_its_last_line():
    (end,) = told("import sys; sys.exit('no more')")
    assert end["kind"] == "failed" and "unexpectedly (1). no more" in end["text"]


def test_a_search_whose_program_does_not_start_is_no_search():
    async def scene() -> LiveSearch:
        search = LiveSearch(program=("/no/such/program",))
        with pytest.raises(OSError, match="/no/such/program"):
            await search.start(Start())
        return search

    assert run(scene).number == 0


def test_two_requests_at_once_start_one_search():
    async def scene() -> list[Any]:
        search = LiveSearch(program=(sys.executable, "-c", "input(); import time; time.sleep(60)"))
        started = await asyncio.gather(*(search.start(Start()) for _ in range(3)), return_exceptions=True)
        search.cancel()
        assert await search.close()
        return started

    first, *others = run(scene)
    assert first == 1 and all(isinstance(other, PivotalError) for other in others)


def test_computations_take_turns(client, monkeypatch):
    inside, most = 0, 0

    def compute(*_: object) -> list[Any]:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        time.sleep(0.01)
        inside -= 1
        return []

    monkeypatch.setattr(LiveRuns, "listed", compute)
    with ThreadPoolExecutor(10) as clients:
        answers = list(clients.map(lambda _: client.ask("state")["runs"], range(20)))
    assert answers == [[]] * 20 and most == 1
