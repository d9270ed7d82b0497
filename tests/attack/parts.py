"""The parts of the attack, as `python -m tests.attack` runs and reports them."""

from __future__ import annotations

import argparse
import random
import resource
import time
from collections.abc import Callable
from pathlib import Path

from tests.attack import disk, kills, live, pages, pickles, strangers
from tests.attack.fuzz import EACH, Findings, in_workers, warm
from tests.attack.materials import Materials
from tests.attack.surroundings import settled

Part = Callable[[argparse.Namespace, Materials], int]
MOST_MEMORY = 500
"""Megabytes that a reader of a hostile pickle may use, torch itself included."""


def _fuzz(given: argparse.Namespace, materials: Materials) -> int:
    materials.root.mkdir(parents=True)
    materials.make_all()
    warm(materials)
    began = time.monotonic()

    def tell(found: Findings) -> None:
        spent = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(
            f"  {found.cases:,} cases, {time.monotonic() - began:.0f} s on the clock, "
            f"{spent.ru_utime + spent.ru_stime:.0f} s of CPU; memory kept by a process: {found.grown} MB; failures: "
            f"{ {name: (len(cases), cases[0][:150]) for name, cases in found.failures.items()} or 'none' }",
            flush=True,
        )

    numbers = range(given.first, given.first + given.cases)
    found = in_workers(given.seed, numbers, materials, targets=given.targets, tell=tell)
    print(f"\nFuzzing: {found.cases:,} cases; exit codes {dict(sorted(found.codes.items()))}")
    print(f"  slowest: {found.slowest[0]:.1f} s on the clock, {found.slowest[1]}")
    print(f"  most memory that a process of {EACH} cases kept: {found.grown} MB")
    for name, count in sorted(found.by_target.items()):
        print(f"  {count:7,}  {name}")
    return _failures(found.failures)


def _failures(failures: dict[str, list[str]]) -> int:
    for signature, cases in sorted(failures.items(), key=lambda item: -len(item[1])):
        print(f"  FAILED {len(cases)} times: {signature}")
        for case in cases[:3]:
            print(f"      {case}")
    return len(failures)


def _in_scratch(run: Callable[[argparse.Namespace, Materials, Path], int], *, serving: bool = False) -> Part:
    def part(given: argparse.Namespace, materials: Materials) -> int:
        materials.root.mkdir(parents=True)
        with settled(materials.root, serving=serving) as scratch:
            return run(given, materials, scratch)

    return part


def _pickles(given: argparse.Namespace, materials: Materials, scratch: Path) -> int:
    for needed in ("checkpoint", "stopped", "begun", "transformer", "run"):
        getattr(materials, needed)
    failures, memory = pickles.attack(given.pickles, given.seed, materials, scratch)
    print(f"\nHostile pickles: {given.pickles}; most memory of a reader: {memory} MB")
    if memory > MOST_MEMORY:
        failures[f"{memory} MB of memory"] = ["the largest of all readers"]
    return _failures(failures)


def _kills(given: argparse.Namespace, materials: Materials, scratch: Path) -> int:
    assert materials.run and materials.corpus
    failures, met = kills.attack(given.kills, given.seed, materials, scratch)
    print(f"\nKills: {sum(met.values())}")
    for name, count in met.items():
        print(f"  {count:4}  {name}")
    return _failures(failures)


def _disk(given: argparse.Namespace, materials: Materials, scratch: Path) -> int:
    assert materials.run and materials.corpus
    failures, met = disk.attack(given.rounds, given.seed, materials, scratch)
    print(f"\nFaults of the disk: {sum(met.values())}")
    for name, count in met.items():
        print(f"  {count:4}  {name}")
    return _failures(failures)


def _strangers(given: argparse.Namespace, materials: Materials, scratch: Path) -> int:
    assert materials.run and materials.stopped and materials.study and materials.corpus
    failures, cases = strangers.links(materials, scratch)
    print(f"\nLinks, pipes and folders in the place of files: {cases} cases")
    number = _failures(failures)
    print("\nTwo processes at once: every long job")
    return number + _failures(strangers.together(materials, scratch))


def _pairs(given: argparse.Namespace, materials: Materials, scratch: Path) -> int:
    from tests.jobs import test_two_processes as two

    failures: dict[str, list[str]] = {}
    kills = 0
    for i in range(given.pairs):
        chance = random.Random(f"{given.seed}:pair:{i}")
        if chance.random() < 0.2:
            before, first, second = chance.choice(two.PAIRS)
        else:
            before = chance.choice([(), ("find",), ("find",), ("study",)])
            first, second = (chance.choice(sorted(two.COMMANDS)) for _ in range(2))
        kill = chance.uniform(0, 2 * two.SECONDS) if chance.random() < 0.2 else None
        kills += kill is not None
        case = f"{given.seed}:pair:{i}, {first} and {second} after {before or 'nothing'}, kill {kill}"
        try:
            two.trial(before, first, second, chance.uniform(0, two.SECONDS), kill)
        except AssertionError as error:
            failures.setdefault(f"{first} and {second}", []).append(f"{case}: {str(error)[:500]}")
        if (i + 1) % 20 == 0:
            print(f"  {i + 1} pairs, {len(failures)} kinds of failures", flush=True)
    print(
        f"\nPairs of processes in one folder: {given.pairs} trials, in {kills} of them one process is killed"
    )
    return _failures(failures)


def _pages(given: argparse.Namespace, materials: Materials, scratch: Path) -> int:
    failures, opened = pages.attack(materials, scratch)
    print(
        f"\nPages of hostile text in a browser: {opened if opened >= 0 else 'not tried, since there is no Chromium'}"
    )
    return _failures(failures)


def _live(given: argparse.Namespace, materials: Materials, scratch: Path) -> int:
    assert materials.run
    failures, codes = live.attack(given.requests, given.seed, materials, scratch)
    print(
        f"\nHostile requests to the live page: {sum(codes.values()):,}; answers {dict(sorted(codes.items()))}"
    )
    return _failures(failures)


PARTS: dict[str, Part] = {
    "fuzz": _fuzz,
    "pickles": _in_scratch(_pickles),
    "kills": _in_scratch(_kills),
    "disk": _in_scratch(_disk),
    "pairs": _in_scratch(_pairs),
    "strangers": _in_scratch(_strangers),
    "pages": _in_scratch(_pages),
    "live": _in_scratch(_live, serving=True),
}
