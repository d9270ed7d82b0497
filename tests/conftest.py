"""Settings that hold for all tests."""

import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import jaxtyping
import pytest

# A shell that starts a job in the background makes it ignore Ctrl-C, and so do the processes that the job starts.
# Some tests send Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The default limit of 0.2 s for an example is too short when other processes use the cores.
hypothesis.settings.register_profile("tests", deadline=None)
hypothesis.settings.load_profile("tests")

TESTS = Path(__file__).parent

CHECKED = ("models", "problem", "searches", "evidence", "lm", "test_contracts.py")
"""Where the shapes in signatures are checked at every call. This takes as long as the computation itself, so the tests
of whole jobs and commands, which call the same functions, do without, and so do those marked `slow`. The contracts call
every model, mask and search."""

CHECKING = not jaxtyping.config.jaxtyping_disable  # JAXTYPING_DISABLE=1 turns it off everywhere


@pytest.fixture
def hangups() -> Iterator[None]:
    """For tests that send SIGHUP: under nohup, processes ignore it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    room = item.path.relative_to(TESTS).parts[0]
    checked = CHECKING and room in CHECKED and item.get_closest_marker("slow") is None
    jaxtyping.config.update("jaxtyping_disable", not checked)
    return (yield)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests come first, then files with slow ones, so that short ones fill the time at the end in which a worker
    would wait for another. One worker gets a whole file, or all files of the browser, since their tests share fixtures
    that are costly to make; the tests marked `apart` share none and go to whichever worker is free."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (item.get_closest_marker("apart") is None, item.path not in slow))
    for item in items:
        if item.get_closest_marker("apart") is None:
            file = item.path.relative_to(TESTS)
            group = "browser" if file.parts[0] == "browser" else file.as_posix()
            item.add_marker(pytest.mark.xdist_group(group))
