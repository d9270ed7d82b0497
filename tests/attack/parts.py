"""The parts of the attack, as `python -m tests.attack` runs and reports them."""

import argparse
import random
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.attack import disk, kills, pickles
from tests.attack.fuzz import REAL, Findings, fuzz, resident
from tests.attack.materials import Materials
from tests.attack.surroundings import settled

Outcome = tuple[dict[str, list[str]], Mapping[str, int]]
"""The failures by signature, and what was tried or met, by name."""
Part = Callable[[argparse.Namespace, Materials, Path], Outcome]


def run(name: str, given: argparse.Namespace, root: Path) -> int:
    """Run a part, print what it found, and return the number of kinds of failures."""
    root.mkdir(parents=True)
    with settled(root) as scratch:
        failures, met = PARTS[name](given, Materials(root), scratch)
    print(f"\n{name}: {sum(met.values()):,}")
    for what, count in sorted(met.items()):
        print(f"  {count:7,}  {what}")
    for signature, cases in sorted(failures.items(), key=lambda item: -len(item[1])):
        print(f"  FAILED {len(cases)} times: {signature}", *cases[:3], sep="\n      ")
    return len(failures)


def _fuzz(given: argparse.Namespace, m: Materials, scratch: Path) -> Outcome:
    """In steps of 500 cases, each told with the memory that the process has by then."""
    m.make_all()
    total, last = Findings(), given.first + given.cases
    for first in range(given.first, last, 500):
        fuzz(given.seed, range(first, min(first + 500, last)), m, given.targets, found=total, real=REAL)
        failed = {name: (len(cases), cases[0][:150]) for name, cases in total.failures.items()}
        print(f"  {total.codes.total():,} cases, {resident()} MB; {failed}", flush=True)
    print(f"\nexit codes {dict(sorted(total.codes.items()))}; slowest: {total.slowest}")
    return total.failures, total.by_target


def _pairs(given: argparse.Namespace, m: Materials, scratch: Path) -> Outcome:
    from tests.jobs import test_two_processes as two

    failures: dict[str, list[str]] = {}
    met = {"trials": 0, "trials with a kill": 0}
    for i in range(given.first, given.first + given.pairs):
        chance = random.Random(f"{given.seed}:pair:{i}")
        if chance.random() < 0.2:
            before, first, second = chance.choice(two.PAIRS)
        else:
            before = chance.choice([(), ("find",), ("find",), ("study",)])
            first, second = (chance.choice(sorted(two.COMMANDS)) for _ in range(2))
        kill = chance.uniform(0, 2 * two.SECONDS) if chance.random() < 0.2 else None
        met["trials" if kill is None else "trials with a kill"] += 1
        case = f"{given.seed}:pair:{i}, {first} and {second} after {before or 'nothing'}, kill {kill}"
        try:
            two.trial(before, first, second, chance.uniform(0, two.SECONDS), kill)
        except Exception as error:  # also a fault of the attack, which must not end it
            failures.setdefault(f"{first} and {second}", []).append(f"{case}: {error!r:.500}")
        if (i + 1) % 20 == 0:
            print(f"  {i + 1} pairs, {len(failures)} kinds of failures", flush=True)
    return failures, met


PARTS: dict[str, Part] = {
    "fuzz": _fuzz,
    "pickles": lambda given, m, scratch: pickles.attack(given.pickles, given.seed, m, scratch),
    "kills": lambda given, m, scratch: kills.attack(given.kills, given.seed, m, scratch),
    "disk": lambda given, m, scratch: disk.attack(given.rounds, given.seed, m, scratch),
    "pairs": _pairs,
}
