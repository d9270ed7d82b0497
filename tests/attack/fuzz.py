"""The fuzzer: many cases, one after the other, and the failures by signature."""

from __future__ import annotations

import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.attack.command import Done, process, run
from tests.attack.materials import Materials
from tests.attack.place import Place
from tests.attack.targets import TARGETS, Target

PROCESSES = 1000
"""One case in so many runs as a process of its own as well."""
DRAWN = 20
"""One report in so many is drawn by the real renderer, which takes a second."""


@dataclass
class Findings:
    cases: int = 0
    by_target: Counter[str] = field(default_factory=Counter)
    codes: Counter[int] = field(default_factory=Counter)
    failures: dict[str, list[str]] = field(default_factory=dict)
    """The cases, as SEED:NUMBER and command, by signature."""
    seconds: float = 0.0
    slowest: tuple[float, str] = (0.0, "")

    def add(self, case: str, target: Target, done: Done, arguments: Sequence[str]) -> None:
        self.cases += 1
        self.by_target[target.name] += 1
        self.codes[done.code] += 1
        self.seconds += done.seconds
        self.slowest = max(self.slowest, (done.seconds, f"{case} {target.name}"))
        if done.failure:
            line = " ".join(argument[:60] for argument in arguments)[:300]
            last = done.err.strip().splitlines()[-1:] or [""]
            self.failures.setdefault(done.failure, []).append(
                f"{case}  {target.name}: {line}  [{last[0][:200]}]"
            )


def fuzz(
    seed: int,
    numbers: Sequence[int],
    materials: Materials,
    *,
    targets: Sequence[str] = (),
    tell: Callable[[Findings], object] = lambda _: None,
) -> Findings:
    """Run the cases with these numbers. A case depends on the seed and its number, and on nothing else."""
    found, chosen = Findings(), [TARGETS[name] for name in targets] or list(TARGETS.values())
    began = time.monotonic()
    with settled(materials.root) as scratch:
        for number in numbers:
            target, place, arguments = make(seed, number, materials, scratch, chosen)
            chance = random.Random(f"{seed}:{number}:how")
            with drawing(real=chance.randrange(DRAWN) == 0):
                done = run(arguments, target.codes)
            if not done.failure and chance.randrange(PROCESSES) == 0:
                again = make(seed, number, materials, scratch, chosen, "again")
                outside = process(again[2], target.codes)
                done = outside if outside.failure else done
                again[1].remove()
            if not done.failure and (harm := place.harm()):
                done = Done(done.code, done.out, done.err, done.seconds, harm)
            found.add(f"{seed}:{number}", target, done, arguments)
            place.remove()
            tell(found)
    found.seconds = time.monotonic() - began
    return found


def make(
    seed: int,
    number: int,
    materials: Materials,
    scratch: Path,
    targets: Sequence[Target],
    under: str = "case",
) -> tuple[Target, Place, list[str]]:
    chance = random.Random(f"{seed}:{number}")
    target = chance.choices(targets, [one.weight for one in targets])[0]
    place = Place.made(scratch / under)
    return target, place, list(target.make(chance, materials, place))


@contextmanager
def settled(root: Path) -> Iterator[Path]:
    """A scratch folder as the current one, with no network and a cache of its own."""
    import os

    with tempfile.TemporaryDirectory(dir=root) as scratch, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIVOTAL_HOME", str(Path(scratch) / "home"))
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("COLUMNS", "200")
        before = Path.cwd()
        (Path(scratch) / "here").mkdir()
        os.chdir(Path(scratch) / "here")
        try:
            yield Path(scratch)
        finally:
            os.chdir(before)


@contextmanager
def drawing(*, real: bool) -> Iterator[None]:
    """Draw charts, or leave them out: a report has ten of them, and they take most of its time."""
    with pytest.MonkeyPatch.context() as patch:
        if not real:
            patch.setattr(
                "pivotal.report.drawing.render",
                lambda form, spec, **options: b"<svg viewBox='0 0 1 1'></svg>",
            )
        yield
