"""Real processes that start at once.

A new interpreter takes three to four seconds to import torch, its optimisers and the library of charts. The processes
here are forked from one that has done so: their signals, exit codes, streams and folders are their own. A test of what
a command imports needs a new interpreter instead.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from pivotal.folders import locked

IMPORTED = ("torch", "torch._dynamo", "altair", "vl_convert", "pivotal.jobs.find", "pivotal.jobs.study.job")
"""torch imports torch._dynamo when the first optimiser is made."""

UNDRAWN = "PIVOTAL_TESTS_UNDRAWN"
"""With this variable a process draws no charts, which take most of the time of a short job."""


def undrawn(form: str, spec: Any, **options: Any) -> bytes:
    return b"<svg viewBox='0 0 1 1'></svg>"


class Process:
    """`python -m module arguments`, with the methods of subprocess.Popen."""

    def __init__(
        self,
        module: str,
        *arguments: object,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        given: str = "",
    ) -> None:
        """`given` is what the process reads from its input."""
        self._folder = tempfile.TemporaryDirectory()
        streams = [Path(self._folder.name) / name for name in ("in", "out", "err")]
        for path in streams:
            path.write_text(given if path.name == "in" else "", encoding="utf-8")
        self._streams = streams[1:]
        self.returncode: int | None = None
        asked = {"module": module, "cwd": str(cwd or Path.cwd()), "env": {**os.environ, **(env or {})}}
        asked |= {"arguments": list(map(str, arguments)), "streams": list(map(str, streams))}
        self.pid: int = _ask(asked)

    @property
    def out(self) -> str:
        """What it has written so far."""
        return self._streams[0].read_text(encoding="utf-8")

    @property
    def err(self) -> str:
        return self._streams[1].read_text(encoding="utf-8")

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = _ask({"poll": self.pid})
        return self.returncode

    def wait(self, timeout: float = 600) -> int:
        until(lambda: self.poll() is not None, timeout)
        return self.returncode

    def communicate(self, timeout: float = 600) -> tuple[str, str]:
        self.wait(timeout)
        return self.out, self.err

    def send_signal(self, signum: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, signum)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def python(
    *arguments: object, env: Mapping[str, str] | None = None, **more: Any
) -> subprocess.CompletedProcess:
    """A new interpreter, for tests of what is imported, and of streams that are given in `more`."""
    streams = {} if "stdout" in more or "stderr" in more else {"capture_output": True}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(
        command, env={**os.environ, **(env or {})}, text=True, check=False, **streams, **more
    )


def code(text: str, *arguments: object, env: Mapping[str, str] | None = None) -> str:
    """What a new interpreter prints that runs this code without an error."""
    done = python("-c", text, *arguments, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def locked_elsewhere(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder in another thread within the block."""
    held = locked(folder)
    with ThreadPoolExecutor(1) as other:
        other.submit(held.__enter__).result()
        try:
            yield
        finally:
            other.submit(held.__exit__, None, None, None).result()


def until(true: Callable[[], object], timeout: float = 600, pause: float = 0.01) -> None:
    """Wait for something. The limit is for hangs: nothing here takes a tenth of it on a busy machine."""
    deadline = time.monotonic() + timeout
    while not true():
        assert time.monotonic() < deadline, f"Waited for {timeout} s."
        time.sleep(pause)


@cache
def _server() -> subprocess.Popen[str]:
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    server = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=paths
    )
    atexit.register(server.wait)
    atexit.register(server.stdin.close)  # ends the server; functions registered last are called first
    return server


def _ask(question: dict[str, Any]) -> Any:
    server = _server()
    server.stdin.write(json.dumps(question) + "\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())


# -- the process that is forked --


def _serve() -> None:
    import importlib

    from pivotal.report.templates import environment

    del sys.path[0]  # the folder of this file
    for name in IMPORTED:
        importlib.import_module(name)
    for name in environment().list_templates(["html"]):
        environment().get_template(name)
    running: set[int] = set()
    for line in sys.stdin:
        asked = json.loads(line)
        if "poll" in asked:
            pid, status = os.waitpid(asked["poll"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
            running.discard(pid)
        else:
            answer = os.fork()
            if answer == 0:
                _run(asked)
            running.add(answer)
        print(json.dumps(answer), flush=True)
    for pid in running:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _run(asked: dict[str, Any]) -> None:
    """Become `python -m module`. The streams of the server are left to the server."""
    import runpy

    os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which nohup makes processes ignore
    for number, path in enumerate(asked["streams"]):
        os.dup2(os.open(path, os.O_WRONLY if number else os.O_RDONLY), number)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    if UNDRAWN in os.environ:
        from pivotal.report import drawing

        drawing.render = undrawn
    sys.argv[1:] = asked["arguments"]
    code: Any = 0
    try:
        runpy.run_module(asked["module"], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    if isinstance(code, str):
        print(code, file=sys.stderr)
        code = 1
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code or 0)


if __name__ == "__main__":
    _serve()
