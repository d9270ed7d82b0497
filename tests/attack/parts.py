"""The parts of the attack, as `python -m tests.attack` runs and reports them."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from tests.attack.fuzz import Findings, fuzz
from tests.attack.materials import Materials


def _fuzz(given: argparse.Namespace, materials: Materials) -> int:
    materials.root.mkdir(parents=True)

    def tell(found: Findings) -> None:
        if found.cases % 1000 == 0:
            print(f"  {found.cases:,} cases, {sum(map(len, found.failures.values()))} failures", flush=True)

    numbers = range(given.first, given.first + given.cases)
    found = fuzz(given.seed, numbers, materials, targets=given.targets, tell=tell)
    print(
        f"\nFuzzing: {found.cases:,} cases in {found.seconds:.0f} s; exit codes {dict(sorted(found.codes.items()))}"
    )
    print(f"  slowest: {found.slowest[0]:.1f} s, {found.slowest[1]}")
    for name, count in sorted(found.by_target.items()):
        print(f"  {count:7,}  {name}")
    return _failures(found.failures)


def _failures(failures: dict[str, list[str]]) -> int:
    for signature, cases in sorted(failures.items(), key=lambda item: -len(item[1])):
        print(f"  FAILED {len(cases)} times: {signature}")
        for case in cases[:3]:
            print(f"      {case}")
    return len(failures)


PARTS: dict[str, Callable[[argparse.Namespace, Materials], int]] = {"fuzz": _fuzz}
