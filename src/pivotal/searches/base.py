"""What a search is, and what it hands over."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.intervention import Intervention
from pivotal.objective import Terms
from pivotal.problem import Problem


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a search stands, for a progress bar and for history.jsonl; a number per run."""

    phase: str
    update: int
    updates: int
    loss: list[float]
    units: list[float]
    accuracy: list[float]
    extra: dict[str, list[float]] = field(default_factory=dict)


@runtime_checkable
class Checkpoint(Protocol):
    """Where a search keeps what it has reached."""

    def load(self) -> dict[str, Any] | None: ...

    def save(self, state: dict[str, Any]) -> None: ...

    def due(self) -> bool:
        """Whether enough time has passed since the last save."""


@dataclass(frozen=True, slots=True)
class Discovery:
    """What a search found: an intervention per run, and how each came about."""

    interventions: tuple[Intervention, ...]
    train_score: tuple[float, ...]
    """Of each run on training pairs, less is better; the best run is chosen by it, never by held-out pairs."""
    stages: tuple[dict[str, dict[str, float]], ...]
    """Per run: loss, accuracy, units (and KL) on training pairs of the relaxed mask, the hard mask, and so on."""

    @property
    def best_run(self) -> int:
        return int(np.argmin(self.train_score))

    @property
    def best(self) -> Intervention:
        return self.interventions[self.best_run]


class Search(ABC):
    """An algorithm: Problem -> Discovery. Subclasses are frozen dataclasses whose fields are its settings."""

    name: ClassVar[str]
    summary: ClassVar[str]

    @property
    def terms(self) -> Terms:
        """The loss that it learns with; the random controls learn with it too."""
        return Terms()

    def check(self, problem: Problem, runs: int, seed: int) -> None:  # noqa: B027 - a search may have nothing to refuse
        """PivotalError if the problem cannot be solved with these settings; asked before anything is written."""

    @abstractmethod
    def solve(
        self,
        problem: Problem,
        *,
        runs: int = 1,
        seed: int = 0,
        progress: Callable[[Progress], None] | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Discovery:
        """Run r uses the seed `seed + r`; all runs go through the model together."""


class Stages:
    """Loss, accuracy and units of every run from the relaxed mask to the final one, on training pairs: the gap between
    what was learned and what is handed over."""

    def __init__(
        self, terms: Terms, sample: Problem, progress: Callable[[Progress], None] | None = None
    ) -> None:
        self._terms, self._sample, self._progress = terms, sample, progress
        self._rows: dict[str, dict[str, list[float]]] = {}
        self.score: list[float] = []
        """Of each run at the last stage: the loss, KL at its weight, and whether the KL bound is kept."""

    @torch.no_grad()
    def add(
        self,
        name: str,
        mask: Float[Tensor, "runs directions units"],
        values: Float[Tensor, "runs directions units"],
    ) -> None:
        outcome = self._sample.run(mask, values)
        loss = self._terms.loss(outcome)
        accuracy = outcome.flipped().float().mean(1).tolist()
        units = mask.amax(1).sum(-1).tolist()
        row = {"loss": loss.tolist(), "accuracy": accuracy, "units": units}
        score = loss
        if self._terms.wants_kl:
            kl = self._sample.mean_kl(outcome.states)
            row["kl"] = kl.tolist()
            score = self._terms.score(loss, kl)
        self.score = score.tolist()
        self._rows[name] = row
        if self._progress is not None:
            self._progress(Progress(name, 1, 1, row["loss"], units, accuracy))

    def by_run(self) -> tuple[dict[str, dict[str, float]], ...]:
        return tuple(
            {name: {key: column[run] for key, column in row.items()} for name, row in self._rows.items()}
            for run in range(len(self.score))
        )


def budget_of(max_units: int | float, units: int, name: str = "max_units") -> int:
    """A number of units (>= 1) or a fraction of them (< 1), as a number of units."""
    if not max_units > 0:
        raise PivotalError(f"A mask needs at least one unit, but {name} is {max_units:g}. Ask for 1 or more.")
    if max_units > units:
        raise PivotalError(
            f"There are {units} units in the sites searched, but {name} is {max_units:g}. Ask for fewer."
        )
    if max_units >= 1 and max_units != int(max_units):
        raise PivotalError(
            f"{name} is a whole number of units, or a fraction below 1, but it is {max_units:g}."
        )
    return int(max_units) if max_units >= 1 else max(1, int(max_units * units))


def interventions_of(
    problem: Problem,
    mask: Bool[Tensor, "runs directions units"],
    values: Float[Tensor, "runs directions units"],
) -> tuple[Intervention, ...]:
    """Hard masks and values as interventions, one per run."""
    frozen = []
    for on, value in zip(mask.cpu(), values.detach().cpu(), strict=True):
        ids = on.any(0).nonzero()[:, 0].tolist()
        frozen.append(
            Intervention(
                units=tuple(problem.space.unit(i) for i in ids),
                directions=problem.labels,
                values=value[:, ids].numpy(),
                active=on[:, ids].numpy(),
                steps=problem.steps,
                model=problem.model.name,
                model_fingerprint=problem.model.fingerprint(),
                phenomenon=problem.pairs.name,
                data_fingerprint=problem.pairs.fingerprint(),
            )
        )
    return tuple(frozen)


def uniform(
    generators: list[torch.Generator], shape: tuple[int, ...], device: torch.device
) -> Float[Tensor, "runs ..."]:
    """Noise in (0, 1) of one run after the other, so that a run's noise does not depend on its neighbours."""
    return torch.stack([torch.rand(shape, generator=g) for g in generators]).to(device, non_blocking=True)
