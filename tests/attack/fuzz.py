"""The fuzzer: many cases, one after the other, and the failures by signature."""

import os
import random
import resource
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.attack.command import Done, run
from tests.attack.materials import Materials
from tests.attack.place import Place
from tests.attack.surroundings import hastened, settled
from tests.attack.targets import TARGETS

from pivotal.errors import in_short

REAL = 50
"""One case in so many leaves out no work (see `hastened`)."""


@dataclass
class Findings:
    by_target: Counter[str] = field(default_factory=Counter)
    """The number of cases."""
    codes: Counter[int] = field(default_factory=Counter)
    failures: dict[str, list[str]] = field(default_factory=dict)
    """The cases, as SEED:NUMBER and command, by signature."""
    slowest: tuple[float, str] = (0.0, "")

    def add(self, case: str, target: str, done: Done, arguments: Sequence[str] = ()) -> None:
        self.by_target[target] += 1
        self.codes[done.code] += 1
        self.slowest = max(self.slowest, (done.seconds, f"{case} {target}"))
        if done.failure:
            last = done.err.strip().splitlines()[-1:] or [""]
            line = f"{' '.join(argument[:60] for argument in arguments)[:300]}  [{last[0][:200]}]"
            self.failures.setdefault(done.failure, []).append(f"{case}  {target}: {line}")


def fuzz(
    seed: int,
    numbers: Sequence[int],
    materials: Materials,
    targets: Sequence[str] = (),
    *,
    found: Findings | None = None,
    real: int = 0,
) -> Findings:
    """Run the cases with these numbers in this process, and add them to `found`. A case depends on the seed, the
    targets and its number, and on nothing else. One case in `real` leaves out no work (see `hastened`); with 0, none.
    After a case that draws charts, as such a case does, the process can no longer fork."""
    found = found or Findings()
    chosen = [TARGETS[name] for name in targets] or list(TARGETS.values())
    with settled(materials.root) as scratch:
        for number in numbers:
            case, place = f"{seed}:{number}", Place.made(scratch / "case")
            try:
                chance = random.Random(case)
                target = chance.choices(chosen, [one.weight for one in chosen])[0]
                arguments = list(target.make(chance, materials, place))
            except Exception as error:  # a fault of the attack must be named like any other
                found.add(case, "?", Done(-1, "", "", 0.0, f"no case was made: {in_short(error)}"))
            else:
                chance = random.Random(f"{case}:how")
                with hastened(real=chance.randrange(real or REAL) == 0 and real > 0):
                    done = run(arguments, target.codes)
                found.add(case, target.name, replace(done, failure=done.failure or place.harm()), arguments)
            place.remove()
    return found


def resident() -> int:
    """The memory of this process in megabytes: now, or the most so far where the system tells only that."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
