"""Closes connections that keep the server waiting. Without this, some clients that send nothing would use up all
connections, and the page of the user would get no answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable
from typing import Any

SECONDS = 10.0
"""A connection is closed if nothing has moved on it in this time, twice in a row."""


async def watch(connections: Callable[[], Iterable[Any]]) -> None:
    """Watch the connections of uvicorn until this task is cancelled."""
    before: dict[Any, Hashable] = {}
    while True:
        await asyncio.sleep(SECONDS)
        now = {one: state for one in list(connections()) if (state := _waits_for(one)) is not None}
        for one, state in now.items():
            if before.get(one) == state:
                one.transport.abort()
        before = now


def _waits_for(connection: Any) -> Hashable | None:
    """What a connection needs from its client: the next request, or that the client reads. The guard counts the time of
    a body that is not complete. None if the answer is being computed."""
    cycle = connection.cycle
    if cycle is None or cycle.response_complete:
        return ("request", cycle)
    unread = connection.transport.get_write_buffer_size()
    return ("unread", cycle, unread) if unread else None
