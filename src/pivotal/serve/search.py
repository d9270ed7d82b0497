"""A search that the live page has started: its process, and the events that browsers listen to.

`python -m pivotal.serve.search` is the process. It reads a `Start` record from its input and writes one JSON object per
line: progress, messages, and how it ended. A process of its own can be stopped by a signal, which saves a checkpoint,
and cannot take the server down with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from pivotal.errors import PivotalError
from pivotal.jobs.find import find
from pivotal.questions.question import Question
from pivotal.records import serial
from pivotal.records.run import Progress
from pivotal.report.page import write_report
from pivotal.searches import choose, default_search
from pivotal.serve.requests import Start
from pivotal.stopping import exit_code, signals
from pivotal.watch import mean_of

_EVENTS, _LINE = 20_000, 2**20
"""The most events that are kept, and the most bytes of one."""
_PATIENCE = 120.0
"""Seconds that a stopped search has to save itself when the server ends."""
_LEAST = 0.1
"""The least seconds between two reports of the same phase, and between two looks for news."""
_SHOWN = 500
"""The most letters that are shown of a line that is no event."""
_PROGRAM = (sys.executable, "-m", "pivotal.serve.search")
ENDED = ("done", "failed", "stopped")


class LiveSearch:
    """One process at a time. Its events stay here, so that a page that is reloaded sees the whole course."""

    def __init__(self, device: str | None = None, program: Sequence[str] = _PROGRAM) -> None:
        """`program` reads a `Start` record and tells events, as `main` does."""
        self._line = [*program, *([] if device is None else [device])]
        self._starting = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._events: list[dict[str, Any]] = []
        self.number = 0
        """Counts the searches that were started."""
        self.command = ""

    @property
    def running(self) -> bool:
        return self._reading is not None and not self._reading.done()

    async def start(self, asked: Start) -> int:
        """Start a search, and return its number."""
        async with self._starting:  # two requests at once must not start two
            if self.running:
                raise PivotalError("Only one search can run at a time. Wait for it, or cancel it.")
            self._process = await asyncio.create_subprocess_exec(
                *self._line,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                limit=_LINE,
                # Ctrl-C in the terminal is for the server alone, which then stops the search.
                start_new_session=os.name == "posix",
            )
            self.command, self._events = command_of(asked), []
            self.number += 1
            self._reading = asyncio.create_task(self._read(self._process, serial.encode(asked, indent=0)))
            return self.number

    def cancel(self) -> None:
        """Ask the search to stop at the next safe place. It saves a checkpoint."""
        if not self.running or self._process is None:
            raise PivotalError("No search is running.")
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT if os.name == "posix" else signal.SIGTERM)

    async def close(self) -> str:
        """Stop a running search and wait until it is saved. The result says what became of it."""
        if not self.running or self._process is None or self._reading is None:
            return ""
        self.cancel()
        try:
            await asyncio.wait_for(asyncio.shield(self._reading), _PATIENCE)
        except asyncio.TimeoutError:
            self._process.kill()
            await self._reading
        return str(self._events[-1].get("text", "")) if self._events else ""

    async def events(self, number: int, first: int = 0) -> AsyncIterator[tuple[int, dict[str, Any] | None]]:
        """The events of a search from an index on; None whenever there is no news. It ends with the search."""
        while number == self.number:
            for event in self._events[first:]:
                yield first, event
                first += 1
                if event["kind"] in ENDED:
                    return
            yield first, None
            await asyncio.sleep(_LEAST)

    async def _read(self, process: asyncio.subprocess.Process, asked: str) -> None:
        assert process.stdin is not None and process.stdout is not None
        with contextlib.suppress(ConnectionError):
            process.stdin.write(asked.encode())
            await process.stdin.drain()
        process.stdin.close()
        other, end = "", None
        async for line in _lines(process.stdout):
            event = _event(line)
            if event is None:  # such as a warning of a library
                other = line.decode(errors="replace").strip()[:_SHOWN] or other
            elif event["kind"] in ENDED:
                end = event  # told when the process has ended and its folder is free
            elif len(self._events) < _EVENTS:
                self._events.append(event)
        code = await process.wait()
        unexpected = {"kind": "failed", "text": f"The search ended unexpectedly ({code}). {other}"}
        self._events.append(end or unexpected)


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """The lines of a process. One that is too long is skipped: if it ended the reading, the process would wait forever
    for somebody to read on."""
    while True:
        try:
            line = await stream.readline()
        except ValueError:
            continue
        if not line:
            return
        yield line


def _event(line: bytes) -> dict[str, Any] | None:
    """The event in a line; None if something else than the search wrote it."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("kind"), str) else None


# -- the process ------------------------------------------------------------------------------------------------------


def command_of(start: Start) -> str:
    """The command that does the same."""
    words = ["pivotal", "find", start.model, start.phenomenon, "--steps", start.steps]
    for name in ("max_units", "updates", "runs", "seed"):
        if (value := getattr(start, name)) != getattr(Start(), name):
            words += [f"--{name.replace('_', '-')}", str(value)]
    return shlex.join(words)


def main() -> int:
    device = sys.argv[1] if len(sys.argv) > 1 else None
    try:
        with signals():
            _run(serial.decode(sys.stdin.read(), Start, "The search", ""), device)
    except PivotalError as error:
        _tell(kind="failed", text=str(error))
        return 2
    except KeyboardInterrupt as stop:
        _tell(kind="stopped", text=str(stop) or "Stopped before anything was written.")
        return exit_code(stop)
    return 0


def _run(start: Start, device: str | None) -> None:
    given = {"max_units": start.max_units, "updates": start.updates}
    given = {name: value for name, value in given.items() if value is not None}
    question = Question(start.model, start.phenomenon, steps=start.steps, seed=start.seed)
    search = choose(default_search(None, given), None, given)
    told: dict[str, Any] = {"command": command_of(start), "watch": _Lines(), "report": write_report}
    found = find(question, search, runs=start.runs, device=device, **told)
    _tell(kind="done", path=str(found.folder.path.resolve()), already=found.already)


class _Lines:
    """Writes what a search reports as lines of JSON."""

    def __init__(self) -> None:
        self._phase, self._last, self._begun = "", 0.0, time.monotonic()

    def say(self, text: str) -> None:
        _tell(kind="said", text=text)

    def progress(self, progress: Progress) -> None:
        now, done = time.monotonic(), progress.update >= progress.updates
        least = max(_LEAST, (now - self._begun) / 1000)  # so that a long search stays below the most events
        if progress.phase == self._phase and now - self._last < least and not done:
            return
        self._phase, self._last = progress.phase, now
        means = {name: mean_of(getattr(progress, name)) for name in ("loss", "units", "accuracy")}
        _tell(
            kind="progress", phase=progress.phase, update=progress.update, updates=progress.updates, **means
        )


def _tell(**event: Any) -> None:
    try:
        print(json.dumps(event), flush=True)
    except OSError:  # nobody listens any more: the server was killed
        raise KeyboardInterrupt from None


if __name__ == "__main__":
    sys.exit(main())
