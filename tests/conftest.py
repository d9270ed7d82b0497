"""Settings that hold for all tests."""

from __future__ import annotations

import signal
from collections.abc import Generator
from pathlib import Path

import jaxtyping
import pytest

# A shell that starts a job in the background makes it ignore Ctrl-C, and so do the processes that the job starts.
# Some tests send Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

TESTS = Path(__file__).parent

CHECKED = ("models", "problem", "searches", "evidence", "lm", "test_contracts.py")
"""Where the shapes in signatures are checked at every call. This takes as long as the computation itself, so the tests
of whole jobs and commands, which call the same functions, do without, and so do those marked `slow`."""

CHECKING = not jaxtyping.config.jaxtyping_disable  # JAXTYPING_DISABLE=1 turns it off everywhere


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    room = item.path.relative_to(TESTS).parts[0]
    checked = CHECKING and room in CHECKED and item.get_closest_marker("slow") is None
    jaxtyping.config.update("jaxtyping_disable", not checked)
    return (yield)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of a file share fixtures that are costly to make, so one worker gets them all. The tests of a file
    marked `apart` share none: they are handed out one by one, at the end, when the workers would otherwise wait for the
    last of them."""
    for item in items:
        if item.get_closest_marker("apart") is None and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(str(item.path.relative_to(TESTS))))
