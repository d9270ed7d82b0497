"""A limit on the size of files: each job says so in a sentence, and the same command goes on."""

import random
import resource
import signal
from collections.abc import Callable
from pathlib import Path

from tests.attack.command import Done, ended, fork
from tests.attack.kills import left_alone, often
from tests.attack.long_jobs import Job, jobs
from tests.attack.materials import Materials
from tests.attack.surroundings import hastened


def _limited(chance: random.Random) -> Callable[[], object]:
    size = chance.choice([0, 100, 1000, 5000, 20_000, 60_000])

    def limit() -> None:
        often()
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


def attack(
    rounds: int,
    seed: int,
    materials: Materials,
    scratch: Path,
    only: tuple[str, ...] = (),
    *,
    real: bool = True,
) -> tuple[dict[str, list[str]], dict[str, int]]:
    """Let every long job meet the limit `rounds` times. With `real`, it leaves out no work in the first round.
    Returns the failures, and how often each job met the limit."""
    assert materials.run and materials.corpus
    failures: dict[str, list[str]] = {}
    met: dict[str, int] = {}
    for job in (job for job in jobs() if not only or job.name in only):
        _, whole = left_alone(job, materials, scratch)
        for number in range(rounds):
            case = f"{seed}:disk:{job.name}:{number}"
            with hastened(real=real and number == 0):
                wrong = _meet(job, materials, scratch, random.Random(case), whole)
            met[job.name] = met.get(job.name, 0) + (wrong != "not met")
            print(f"  {case}: {wrong or 'mended'}"[:300], flush=True)
            if wrong not in ("", "not met"):
                failures.setdefault(wrong, []).append(case)
    return failures, met


def _meet(job: Job, m: Materials, disk: Path, chance: random.Random, wanted: object) -> str:
    """What is wrong: with the job under the limit, or with its result once the limit is gone."""
    out = disk / f"out-{chance.randrange(10**9)}" / "job"
    first = ended(fork(job.line(m, out), _limited(chance)))
    if first.code == 0:
        return "not met"
    if first.failure or not _told(job, first):
        return f"{job.name}: {first.failure or f'exit code {first.code}: {first.err[-200:]}'}"
    return job.wrong(ended(fork(job.line(m, out), often)), out, wanted)


def _told(job: Job, done: Done) -> bool:
    """Whether the job ended with a sentence. A study counts its failed runs, and says which."""
    return done.code == 2 or (job.name == "study" and done.code == 1)
