"""`python -m pivotal.serve.find_process`: the process that a live page starts for a search.

It reads a `Start` record from its input and writes one JSON object per line: progress, messages, and how it ended. A
process of its own can be stopped by a signal, which saves a checkpoint, and cannot take the server down with it.
"""

from __future__ import annotations

import json
import shlex
import sys
import time
from typing import Any

from pivotal.errors import PivotalError
from pivotal.jobs.find import find
from pivotal.questions.question import Question
from pivotal.records import serial
from pivotal.records.run import Progress
from pivotal.report.page import write_report
from pivotal.searches import choose
from pivotal.serve.requests import Start
from pivotal.stopping import exit_code, signals

_LEAST = 0.1
"""The least seconds between two reports of the same phase."""


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
    search = choose("learned", None, given, start.steps)
    found = find(question, search, runs=start.runs, device=device, command=command_of(start), watch=_Lines())
    if not found.already or not found.folder.report.is_file():
        write_report(found.folder)
    _tell(kind="done", path=str(found.folder.path.resolve()), already=found.already)


class _Lines:
    """Writes what a search reports as lines of JSON."""

    def __init__(self) -> None:
        self._phase, self._last = "", 0.0

    def say(self, text: str) -> None:
        _tell(kind="said", text=text)

    def progress(self, progress: Progress) -> None:
        now, done = time.monotonic(), progress.update >= progress.updates
        if progress.phase == self._phase and now - self._last < _LEAST and not done:
            return
        self._phase, self._last = progress.phase, now
        rows = serial.plain(progress)
        means = {name: _mean(rows[name]) for name in ("loss", "units", "accuracy")}
        _tell(
            kind="progress", phase=progress.phase, update=progress.update, updates=progress.updates, **means
        )


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _tell(**event: Any) -> None:
    try:
        print(json.dumps(event), flush=True)
    except OSError:  # nobody listens any more: the server was killed
        raise KeyboardInterrupt from None


if __name__ == "__main__":
    sys.exit(main())
