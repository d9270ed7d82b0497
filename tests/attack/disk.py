"""Faults of the disk: full, read-only, files that may not grow. Each is a sentence, and the same command goes on."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.attack.command import Done, ended, fork
from tests.attack.kills import often
from tests.attack.long_jobs import Job, jobs
from tests.attack.materials import Materials
from tests.attack.surroundings import hastened


def can_mount() -> bool:
    """Whether this process may mount a small file system in memory: it must be root, with the right to mount."""
    if os.geteuid() != 0 or not Path("/proc/mounts").exists():
        return False
    with _small(Path("/tmp"), 1) as there:
        return there is not None


@contextmanager
def _small(beside: Path, megabytes: int) -> Iterator[Path | None]:
    """A file system of some megabytes; None if it cannot be mounted."""
    path = beside / f"attack-disk-{os.getpid()}"
    path.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(path)]
    mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield path if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(path)], check=False)
        path.rmdir()


@dataclass(frozen=True)
class Fault:
    """Something that is wrong with the disk while `broken` lasts."""

    name: str
    broken: Callable[[Path, random.Random], object]
    mended: Callable[[Path], object]
    prepare: Callable[[random.Random], Callable[[], object]] = lambda _: lambda: None
    """What the process itself does before it starts."""
    mounts: bool = True


def _fill(disk: Path, chance: random.Random) -> None:
    """Leave a random small number of bytes free."""
    with (disk / "filler").open("wb") as filler:
        free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
        filler.write(bytes(max(0, free - chance.choice([0, 1, 3, 8, 20, 40, 80]) * 4096)))


def _remount(disk: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(disk)], check=True)


def _limited(chance: random.Random) -> Callable[[], object]:
    size = chance.choice([0, 100, 1000, 5000, 20_000, 60_000])

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


FAULTS = (
    Fault("a full disk", _fill, lambda disk: (disk / "filler").unlink()),
    Fault("a read-only disk", lambda disk, _: _remount(disk, "ro"), lambda disk: _remount(disk, "rw")),
    Fault("a limit on the size of files", lambda *_: None, lambda _: None, _limited, mounts=False),
)


def attack(
    rounds: int,
    seed: int,
    materials: Materials,
    scratch: Path,
    only: tuple[str, ...] = (),
    *,
    real: bool = True,
) -> tuple[dict[str, list[str]], dict[str, int]]:
    """Let every long job meet every fault `rounds` times. With `real`, it leaves out no work in the first round.
    Returns the failures, and how often each fault was met."""
    assert materials.run and materials.corpus
    failures: dict[str, list[str]] = {}
    met: dict[str, int] = {}
    mountable = can_mount()
    chosen = [job for job in jobs() if not only or job.name in only]
    whole = {}
    for job in chosen:
        out = scratch / "whole" / job.name
        with hastened():
            done = ended(fork(job.line(materials, out), often))
        whole[job.name] = job.result(out) if done.code == 0 else None
    with _small(scratch, 30) as disk:
        for fault in FAULTS:
            if fault.mounts and not mountable:
                met[f"{fault.name}: not tried, since nothing can be mounted here"] = 0
                continue
            for job in chosen:
                for number in range(rounds):
                    case = f"{seed}:disk:{fault.name}:{job.name}:{number}"
                    with hastened(real=real and number == 0):
                        wrong = _meet(
                            fault, job, materials, disk or scratch, random.Random(case), whole[job.name]
                        )
                    met[fault.name] = met.get(fault.name, 0) + (wrong != "not met")
                    print(f"  {case}: {wrong or 'mended'}"[:300], flush=True)
                    if wrong not in ("", "not met"):
                        failures.setdefault(wrong, []).append(case)
    return failures, met


def _meet(fault: Fault, job: Job, m: Materials, disk: Path, chance: random.Random, wanted: object) -> str:
    """What is wrong: with the job while the disk is broken, or with its result once the disk is mended."""
    out = disk / f"out-{chance.randrange(10**9)}" / "job"
    prepare = fault.prepare(chance)
    fault.broken(disk, chance)
    try:
        first = ended(fork(job.line(m, out), lambda: (often(), prepare())))
    finally:
        fault.mended(disk)
    if first.code == 0:
        return "not met"
    if first.failure or not _told(job, first):
        return f"{fault.name}, {job.name}: {first.failure or f'exit code {first.code}: {first.err[-200:]}'}"
    again = ended(fork(job.line(m, out), often))
    if again.failure or again.code != 0:
        return f"{job.name} does not go on after {fault.name}: {again.failure or again.err[-300:]}"
    try:
        same = job.result(out) == wanted
    except (OSError, AssertionError) as error:
        return f"{job.name} after {fault.name}: {type(error).__name__} {error}"
    return "" if same else f"{job.name} after {fault.name}: another result"


def _told(job: Job, done: Done) -> bool:
    """Whether the job ended with a sentence. A study counts its failed runs, and says which."""
    return done.code == 2 or (job.name == "study" and done.code == 1)
