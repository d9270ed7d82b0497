"""The planted model, whose units are known: problems, masks, edits, and a checkpoint in memory for stopped searches."""

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from pivotal import Intervention, Problem, load_phenomenon
from pivotal.models.planted import plant
from pivotal.searches import Discovery
from pivotal.searches.base import interventions_of
from pivotal.units import Steps

PLANTED = plant()
PAIRS = load_phenomenon("planted")
BOTH_STEPS = pytest.mark.parametrize("steps", ["single", "every"])


def planted_problem(steps: Steps = "every", seed: int = 0, pairs: int = 120, **options: Any) -> Problem:
    return Problem(plant(seed).model, PAIRS.sample(pairs), steps=steps, **options)


def mask_of(problem: Problem, *sets: Any) -> Tensor:
    """A mask for each set of units, the same in both directions."""
    mask = torch.zeros(len(sets), 2, len(problem.space))
    for row, units in zip(mask, sets, strict=True):
        row[:, [problem.space.flat(unit) for unit in units]] = 1
    return mask


def pushed(problem: Problem, units: Any = PLANTED.units, size: float = 0.5) -> tuple[Tensor, Tensor]:
    """The mask of units, and values that push them to singular in the first direction and to plural in the second."""
    values = torch.tensor([size, -size])[None, :, None].expand(1, 2, problem.space.coordinates)
    return mask_of(problem, units), values


def set_to(problem: Problem, units: Any, values: Tensor) -> Intervention:
    return interventions_of(problem, mask_of(problem, units).bool(), values)[0]


def same(a: Discovery, b: Discovery) -> bool:
    return (a.interventions, a.train_score, a.stages) == (b.interventions, b.train_score, b.stages)


class Stopped(Exception):
    """The stop that was requested, met between two steps."""


class Memory:
    """A checkpoint that goes through torch's files, as a run folder's does. It saves after step `stop_at` and stops."""

    def __init__(self, stop_at: int) -> None:
        self._stop_at, self._steps = stop_at, 0
        self._content: bytes | None = None
        self._reached: tuple[Intervention, ...] = ()

    def load(self) -> dict[str, Any] | None:
        if self._content is None:
            return None
        state: dict[str, Any] = torch.load(io.BytesIO(self._content), weights_only=True)
        return state | {"interventions": self._reached}

    def save(self, state: dict[str, Any]) -> None:
        self._reached = state["interventions"]  # a run folder packs them by itself
        file = io.BytesIO()
        torch.save({key: value for key, value in state.items() if key != "interventions"}, file)
        self._content = file.getvalue()

    def between_steps(self, state: Callable[[], dict[str, Any]] | None = None) -> None:
        self._steps += 1
        if self._steps == self._stop_at:
            if state is not None:
                self.save(state())
            raise Stopped
