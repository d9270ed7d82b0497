"""Kills: long jobs are killed at random moments, and the same command must reach the result of one that was not."""

import os
import random
import shutil
import signal
import time
from pathlib import Path

from tests.attack.command import Done, ended, fork
from tests.attack.long_jobs import Job, jobs
from tests.attack.materials import Materials
from tests.attack.surroundings import hastened

MOST = 4
"""The most kills of one job before it may finish."""
REAL = 4
"""One job in so many draws its charts."""


def often() -> None:
    """Save a checkpoint at every step, so that a kill meets as many of them as possible."""
    import pivotal.jobs.checkpoint

    pivotal.jobs.checkpoint.EVERY_SECONDS = 0.0


def left_alone(job: Job, m: Materials, scratch: Path) -> tuple[Done, object]:
    """How a job ends that nothing stops, and its result."""
    out = scratch / "whole" / job.name
    with hastened():
        done = ended(fork(job.line(m, out), often))
    return done, job.result(out) if done.code == 0 else None


def attack(
    number: int,
    seed: int,
    materials: Materials,
    scratch: Path,
    only: tuple[str, ...] = (),
    *,
    most: int = MOST,
    real: int = REAL,
) -> tuple[dict[str, list[str]], dict[str, int]]:
    """Kill the jobs `number` times in all, each `most` times before it may finish. One job in `real` draws its charts;
    with 0, none. Returns the failures, and the number of kills of each job."""
    assert materials.run and materials.corpus
    failures: dict[str, list[str]] = {}
    chosen = [job for job in jobs() if not only or job.name in only]
    whole: dict[str, tuple[object, float]] = {}
    for job in chosen:
        done, result = left_alone(job, materials, scratch)
        if done.code == 0:
            whole[job.name] = result, done.seconds
        else:
            failures.setdefault(f"{job.name} fails when left alone", []).append(done.err[-500:])
    kills = dict.fromkeys(whole, 0)
    round_ = 0
    while sum(kills.values()) < number and whole and round_ < 10 * number:
        job = [job for job in chosen if job.name in whole][round_ % len(whole)]
        chance = random.Random(f"{seed}:kill:{round_}")
        out = scratch / f"killed-{round_}"
        wanted, seconds = whole[job.name]
        left = min(most, number - sum(kills.values()))
        with hastened(real=real > 0 and round_ % real == 0):
            killed, finished = _kill(job, materials, out, chance, seconds, left)
            # A finished training refuses to be run again.
            done = finished or ended(fork(job.line(materials, out), often))
        kills[job.name] += killed
        wrong = job.wrong(done, out, wanted)
        print(
            f"  {seed}:kill:{round_}, {job.name}: {killed} kills, {wrong or 'the same result'}"[:300],
            flush=True,
        )
        if wrong:
            failures.setdefault(wrong, []).append(
                f"{seed}:kill:{round_}, after {killed} kills  [{done.err[-300:]}]"
            )
        shutil.rmtree(out, ignore_errors=True)
        round_ += 1
    return failures, kills


def _kill(
    job: Job, m: Materials, out: Path, chance: random.Random, seconds: float, most: int
) -> tuple[int, Done | None]:
    """Start the job and kill it, several times. Returns how often it was killed before it had finished, and how it
    ended if it finished."""
    killed = 0
    for _ in range(most):
        pid = fork(job.line(m, out), often)
        time.sleep(chance.uniform(0.0, 0.8 * seconds))
        os.kill(pid, signal.SIGKILL)
        if (done := ended(pid)).code != -signal.SIGKILL:
            return killed, done
        killed += 1
    return killed, None
