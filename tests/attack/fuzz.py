"""The fuzzer: many cases, one after the other, and the failures by signature."""

from __future__ import annotations

import os
import random
import resource
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.attack.command import Done, run
from tests.attack.materials import Materials
from tests.attack.place import Place
from tests.attack.surroundings import hastened, settled
from tests.attack.targets import TARGETS, Target

from pivotal.errors import in_short

REAL = 50
"""One case in so many leaves out no work (see `hastened`)."""


@dataclass(frozen=True)
class Case:
    """One case and how it ended."""

    name: str
    """SEED:NUMBER."""
    target: str
    code: int
    seconds: float
    failure: str = ""
    line: str = ""
    """The command and the end of what it said, if it failed."""


@dataclass
class Findings:
    cases: int = 0
    by_target: Counter[str] = field(default_factory=Counter)
    codes: Counter[int] = field(default_factory=Counter)
    failures: dict[str, list[str]] = field(default_factory=dict)
    """The cases, as SEED:NUMBER and command, by signature."""
    slowest: tuple[float, str] = (0.0, "")

    def add(self, case: Case) -> None:
        self.cases += 1
        self.by_target[case.target] += 1
        self.codes[case.code] += 1
        self.slowest = max(self.slowest, (case.seconds, f"{case.name} {case.target}"))
        if case.failure:
            self.failures.setdefault(case.failure, []).append(f"{case.name}  {case.target}: {case.line}")


def fuzz(
    seed: int,
    numbers: Sequence[int],
    materials: Materials,
    targets: Sequence[str] = (),
    *,
    found: Findings | None = None,
    real: int = 0,
) -> Findings:
    """Run the cases with these numbers in this process, and add them to `found`. After a case that draws charts, as one
    in `real` does, the process can no longer fork."""
    found = found or Findings()
    for case in cases(seed, numbers, materials, targets, real=real):
        found.add(case)
    return found


def cases(
    seed: int, numbers: Sequence[int], materials: Materials, targets: Sequence[str] = (), *, real: int = 0
) -> Iterator[Case]:
    """Run the cases with these numbers. A case depends on the seed, the targets and its number, and on nothing else.
    One case in `real` leaves out no work (see `hastened`); with 0, none."""
    chosen = [TARGETS[name] for name in targets] or list(TARGETS.values())
    with settled(materials.root) as scratch:
        for number in numbers:
            try:
                target, place, arguments = make(seed, number, materials, scratch, chosen)
            except Exception as error:  # a fault of the attack must be named like any other
                yield Case(f"{seed}:{number}", "?", -1, 0.0, f"no case was made: {in_short(error)}")
                Place(scratch / "case").remove()
                continue
            chance = random.Random(f"{seed}:{number}:how")
            with hastened(real=chance.randrange(real or REAL) == 0 and real > 0):
                done = run(arguments, target.codes)
            if not done.failure and (harm := place.harm()):
                done = Done(done.code, done.out, done.err, done.seconds, harm)
            yield _case(f"{seed}:{number}", target, done, arguments)
            place.remove()


def _case(name: str, target: Target, done: Done, arguments: Sequence[str]) -> Case:
    line = ""
    if done.failure:
        last = done.err.strip().splitlines()[-1:] or [""]
        line = f"{' '.join(argument[:60] for argument in arguments)[:300]}  [{last[0][:200]}]"
    return Case(name, target.name, done.code, done.seconds, done.failure, line)


def make(
    seed: int,
    number: int,
    materials: Materials,
    scratch: Path,
    targets: Sequence[Target],
) -> tuple[Target, Place, list[str]]:
    chance = random.Random(f"{seed}:{number}")
    target = chance.choices(targets, [one.weight for one in targets])[0]
    place = Place.made(scratch / "case")
    return target, place, list(target.make(chance, materials, place))


def resident() -> int:
    """The memory of this process in megabytes: now, or the most so far where the system tells only that."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
