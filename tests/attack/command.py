"""Runs the command: in this process, in a forked process, or as a real process, and says how it ended."""

import contextlib
import io
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

SECONDS = 30.0
"""A command that computes longer hangs: all inputs of the attack are tiny. Time in which other work has the cores does
not count."""
CLOCK = 600.0
"""Seconds on the clock after which a command hangs in any case."""
MEMORY = 1000
"""Megabytes by which one command may raise the memory of the process."""
LIMIT = 6 << 30
"""Bytes of memory that this process may have, so that a bad case does not take the machine with it."""
WHILE_RUNNING = ("torch._dynamo", "altair", "pivotal.jobs.find", "pivotal.report.page", "pivotal.lm.training")
"""What most commands import while they run."""
CODES = (0, 2)
"""The exit codes of a command that was not stopped: done, and refused."""


@dataclass(frozen=True)
class Done:
    """How a command ended. `failure` is a signature, equal for failures with the same cause, or empty."""

    code: int
    out: str
    err: str
    seconds: float
    failure: str = ""


class Hang(BaseException):
    """Raised by the clock, beyond the reach of `except Exception`."""


def limit_memory() -> None:
    """Limit the memory of this process and its children. The limit is on data, since the renderer of charts reserves
    far more address space than it uses."""
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))


@cache
def command() -> Any:
    import typer.main

    from pivotal.cli.main import app

    return typer.main.get_command(app)


def run(arguments: Sequence[str], codes: Collection[int] = CODES, seconds: float = SECONDS) -> Done:
    """Run the command in this process, through its own entry."""
    out, err = io.StringIO(), io.StringIO()
    began, before, failure, code = time.monotonic(), _memory(), "", 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            with _clock(seconds):
                command().main(args=list(arguments), prog_name="pivotal")
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        except Hang:
            failure = f"hang of more than {seconds:.0f} s in {_place(sys.exc_info()[2])}"
        except BaseException as error:
            failure = f"{type(error).__name__} at {_place(error.__traceback__)}"
            err.write("".join(traceback.format_exception(error)))
    if not failure and (grown := _memory() - before) > MEMORY:
        failure = f"{grown // 100 * 100} MB of memory: {arguments[0] if arguments else ''}"
    done = Done(code, out.getvalue(), err.getvalue(), time.monotonic() - began, failure)
    return done if failure else _judged(done, codes, arguments)


def _judged(done: Done, codes: Collection[int], arguments: Sequence[str]) -> Done:
    verb = next((given for given in arguments if not given.startswith("-")), "")[:20]
    failure = ""
    if "Traceback (most recent call last)" in done.err:
        failure = f"traceback: {done.err.strip().splitlines()[-1][:80]}"
    elif done.code not in codes:
        failure = f"exit code {done.code} of {verb}"
    elif done.code == 2 and not (done.err + done.out).strip():
        failure = f"refused without a word: {verb}"
    return Done(done.code, done.out, done.err, done.seconds, failure)


@contextlib.contextmanager
def _clock(seconds: float) -> Iterator[None]:
    def ring(*_: object) -> None:
        raise Hang

    timers = ((signal.SIGPROF, signal.ITIMER_PROF, seconds), (signal.SIGALRM, signal.ITIMER_REAL, CLOCK))
    before = [signal.signal(name, ring) for name, _, _ in timers]
    for _, timer, limit in timers:
        signal.setitimer(timer, limit)
    try:
        yield
    finally:
        for (name, timer, _), old in zip(timers, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(name, old)


def _place(trace: Any) -> str:
    """The innermost place in our own code."""
    ours = [frame for frame in traceback.extract_tb(trace) if "/src/pivotal/" in frame.filename]
    if not ours:
        return "the test"
    last = ours[-1]
    return f"{last.filename.partition('/src/pivotal/')[2]}, {last.name}"


def _memory() -> int:
    """The most memory that this process has had, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def _limit_time() -> None:
    """Let the system kill this process when it has computed for too long."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(4 * SECONDS), int(4 * SECONDS)))


# -- forked processes: they start in milliseconds, and can be killed ---------------------------------------------------


def fork(arguments: Sequence[str], prepare: Callable[[], object] = lambda: None) -> int:
    """Start the command in a copy of this process, and return its id. Its output goes to `output_of`."""
    output_of(0).parent.mkdir(parents=True, exist_ok=True)
    _load()
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _limit_time()
        with output_of(os.getpid()).open("w") as said:
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
            sys.stdout = sys.stderr = io.TextIOWrapper(
                os.fdopen(1, "wb", 0, closefd=False), write_through=True
            )
            prepare()
            try:
                command().main(args=list(arguments), prog_name="pivotal")
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
            except BaseException:
                traceback.print_exc()
    finally:
        os._exit(code)


@cache
def _load() -> None:
    """A forked process would import it each time, which takes longer than the command itself."""
    for name in WHILE_RUNNING:
        import_module(name)


def output_of(pid: int) -> Path:
    """A folder of this user's own: one that another user made could not be written to."""
    usual = Path(tempfile.gettempdir()) / f"pivotal-attack-output-{os.getuid()}"
    return Path(os.environ.get("ATTACK_OUTPUT", usual)) / str(pid)


def ended(pid: int, seconds: float = CLOCK) -> Done:
    """Wait for a forked process. It is killed, and has failed, if it takes too long; the system limits what it
    computes."""
    began, code = time.monotonic(), None
    while code is None and time.monotonic() - began < seconds:
        there, status = os.waitpid(pid, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status) if there else None
        time.sleep(0.01)
    failure = "hang: too much computation" if code == -signal.SIGXCPU else ""
    if code is None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        code, failure = -9, f"hang of more than {seconds:.0f} s"
    said = output_of(pid).read_text(errors="replace") if output_of(pid).exists() else ""  # killed at once
    output_of(pid).unlink(missing_ok=True)
    if "Traceback (most recent call last)" in said:
        failure = f"traceback: {said.strip().splitlines()[-1][:80]}"
    return Done(code, said, said, time.monotonic() - began, failure)
