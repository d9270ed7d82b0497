"""The fuzzer: many cases, one after the other, and the failures by signature."""

from __future__ import annotations

import os
import pickle
import random
import resource
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from tests.attack import options
from tests.attack.command import Done, run
from tests.attack.materials import Materials
from tests.attack.place import Place
from tests.attack.surroundings import hastened, settled
from tests.attack.targets import TARGETS, Target

from pivotal.errors import in_short

REAL = 50
"""One case in so many leaves out no work (see `hastened`)."""
EACH = 500
"""The cases of one process of the whole attack. A crash costs no more than one case, and memory that a process keeps
is seen."""


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
    grown: int = 0
    """The most megabytes that a process has kept after its cases (`in_workers` only)."""

    def add(self, case: Case) -> None:
        self.cases += 1
        self.by_target[case.target] += 1
        self.codes[case.code] += 1
        self.slowest = max(self.slowest, (case.seconds, f"{case.name} {case.target}"))
        if case.failure:
            self.failures.setdefault(case.failure, []).append(f"{case.name}  {case.target}: {case.line}")


def fuzz(seed: int, numbers: Sequence[int], materials: Materials, targets: Sequence[str] = ()) -> Findings:
    """Run the cases with these numbers in this process. No chart is drawn, so that the process can still fork."""
    found = Findings()
    for case in cases(seed, numbers, materials, targets, real=0):
        found.add(case)
    return found


def cases(
    seed: int, numbers: Sequence[int], materials: Materials, targets: Sequence[str] = (), *, real: int = REAL
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


# -- the whole attack: one process after the other ---------------------------------------------------------------------


def in_workers(
    seed: int,
    numbers: Sequence[int],
    materials: Materials,
    *,
    targets: Sequence[str] = (),
    tell: Callable[[Findings], object] = lambda _: None,
) -> Findings:
    """Run the cases in forked processes of `EACH` cases. The materials must have been made."""
    found = Findings()
    left = list(numbers)
    while left:
        done, ending, grown = _worker(seed, left[:EACH], materials, targets)
        for case in done:
            found.add(case)
        left = left[len(done) :]
        found.grown = max(found.grown, grown)
        if ending:  # the process ended in the middle of a case
            found.add(Case(f"{seed}:{left.pop(0)}", "?", -1, 0.0, ending))
        tell(found)
    return found


def _worker(
    seed: int, numbers: Sequence[int], materials: Materials, targets: Sequence[str]
) -> tuple[list[Case], str, int]:
    """The cases that a process has finished, how it ended if it did so before the last one, and the megabytes by which
    its memory grew after the first tenth of the cases, when everything is loaded."""
    told = materials.root / "told.pickle"
    pid = os.fork()
    if not pid:
        code = 1
        try:
            with told.open("wb") as out:
                for i, case in enumerate(cases(seed, numbers, materials, targets)):
                    pickle.dump((case, resident()), out)
                    out.flush()
                    if i == len(numbers) - 1:
                        code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    rows = list(_rows(told))
    memory = [megabytes for _, megabytes in rows[len(rows) // 10 :]] or [0]
    unfinished = len(rows) < len(numbers)
    ending = f"the process ended with exit code {status}" if unfinished else ""
    return [case for case, _ in rows], ending, memory[-1] - memory[0]


def _rows(told: Path) -> Iterator[tuple[Case, int]]:
    with told.open("rb") as rows:
        while True:
            try:
                yield pickle.load(rows)
            except EOFError:
                return


def resident() -> int:
    """The memory of this process in megabytes: now, or the most so far where the system tells only that."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def warm(materials: Materials) -> None:
    """Run every verb once in this process, so that processes forked from it need to import nothing. No charts are drawn
    and no Arrow tables are read, because both start threads, which would not survive a fork."""
    if find_spec("pyarrow"):
        import_module("pyarrow.parquet")
    with settled(materials.root) as scratch, hastened():
        place = Place.made(scratch / "place")
        for verb in options.verbs():
            run(options.cheap(verb, materials, place))
        run(("show", str(place.copy(materials.certified)), "--page"))
        run(("evaluate", str(materials.run), "--model", str(materials.transformer), "--any-model"))
