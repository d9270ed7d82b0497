"""What a target of the fuzzer is, and the list of all targets.

A target takes a source of chance, the materials and the place of the case. It writes what it spoils into the place and
returns the command line. `chance` must decide everything, so that a seed repeats the case.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.attack.command import CODES
from tests.attack.materials import Materials
from tests.attack.mutations import Spoil
from tests.attack.place import Place

Make = Callable[[random.Random, Materials, Place], Sequence[str]]


@dataclass(frozen=True)
class Target:
    name: str
    make: Make
    weight: float
    """How often it is drawn; lower for commands that take longer."""
    codes: tuple[int, ...] = CODES
    light: bool = True
    """Whether its materials are made within a few seconds."""


TARGETS: dict[str, Target] = {}


def target(
    name: str, *, weight: float = 1.0, codes: tuple[int, ...] = CODES, light: bool = True
) -> Callable[[Make], Make]:
    def add(make: Make) -> Make:
        TARGETS[name] = Target(name, make, weight, codes, light)
        return make

    return add


def spoil(path: Path, chance: random.Random, *ways: Spoil) -> None:
    path.write_bytes(chance.choice(ways)(path.read_bytes(), chance))
