"""Distributions over masks, and the estimators of the gradient by their logits.

A file in this folder, or an entry point of the group `pivotal.masks`, adds a distribution. The setting `mask` of the
search `learned` selects one by its name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pivotal.registry import Registry

Entries: TypeAlias = Float[Tensor, "*entries"]
"""A number for each entry of a mask."""
Logits: TypeAlias = Float[Tensor, "runs masks units"]
"""Of each run: one mask, or one per direction."""
Drawn: TypeAlias = Float[Tensor, "runs samples masks units"]
"""Masks that were drawn."""
Costs: TypeAlias = Float[Tensor, "runs samples"]


class MaskFamily(ABC):
    """The distribution of a mask entry, given its logit. Entries are independent.

    A subclass is a frozen dataclass. All its fields have defaults, because a search creates a family by its name.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    zeros_stay: ClassVar[bool] = False
    """Whether a sample of 0 has no gradient by its logit. A site whose mask is 0 can then be skipped."""

    @abstractmethod
    def sample(self, logits: Entries, uniform: Entries) -> Entries:
        """A mask from uniform noise in (0, 1), with a gradient by the logits if the estimator is pathwise."""

    @abstractmethod
    def nonzero(self, logits: Entries) -> Entries:
        """P(m != 0). Its sum is the expected number of units."""

    @abstractmethod
    def fractional(self, logits: Entries) -> Entries:
        """P(0 < m < 1), the mass that is lost when the mask is made hard."""

    @abstractmethod
    def mean(self, logits: Entries) -> Entries:
        """E[m]."""

    def hard(self, logits: Entries) -> Bool[Tensor, "*entries"]:
        """The paper's rule: an entry is on if its expected value exceeds one half."""
        return self.mean(logits) > 0.5

    def log_probability(
        self, mask: Float[Tensor, "*#entries"], logits: Float[Tensor, "*#entries"]
    ) -> Float[Tensor, "*#entries"]:
        """log P(m = mask), with a gradient by the logits. Only the score function needs it."""
        raise NotImplementedError(f"{type(self).__name__} needs log_probability() to use the score function.")

    @abstractmethod
    def estimator(self) -> Estimator:
        """A new gradient estimator: `Pathwise` or `ScoreFunction`."""


class Estimator(ABC):
    """An estimator of d E[cost] / d logits, and the start values that suit its noise."""

    start: ClassVar[float]
    """The expected share of units that are on at the start. The allowed number of units shrinks from there."""
    largest: ClassVar[float]
    """The largest multiplier of the constraint on the number of units."""
    samples: int = 1
    """Masks drawn per update and run."""

    @abstractmethod
    def first_logits(
        self, generators: list[torch.Generator], shape: tuple[int, int], device: torch.device
    ) -> Logits:
        """The logits before the first update."""

    @abstractmethod
    def term(self, family: MaskFamily, logits: Logits, drawn: Drawn, cost: Costs) -> Float[Tensor, " runs"]:
        """A term whose gradients are the estimates. It must not change the state of the estimator."""

    @abstractmethod
    def hard(self, family: MaskFamily, logits: Logits, budget: int) -> Bool[Tensor, "runs masks units"]:
        """The hard mask: at most `budget` units, at least one."""

    def follow(self, cost: Costs) -> None:  # noqa: B027 - most estimators keep nothing
        """Called after each update with the costs of its masks."""

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any], device: torch.device) -> None:  # noqa: B027
        pass


class Pathwise(Estimator):
    """The gradient through a mask that is a differentiable function of logits and noise."""

    start = 1.0
    largest = 20.0

    def first_logits(
        self, generators: list[torch.Generator], shape: tuple[int, int], device: torch.device
    ) -> Logits:
        return 1.0 + 0.2 * (uniform(generators, shape, device) - 0.5)

    def term(self, family: MaskFamily, logits: Logits, drawn: Drawn, cost: Costs) -> Float[Tensor, " runs"]:
        return cost.mean(1)

    def hard(self, family: MaskFamily, logits: Logits, budget: int) -> Bool[Tensor, "runs masks units"]:
        """The units that the family's rule switches on: at most the `budget` likeliest, and at least one."""
        order = logits.argsort(dim=-1, descending=True)
        rank = torch.empty_like(order).scatter_(
            -1, order, torch.arange(logits.shape[-1], device=logits.device).expand_as(order)
        )
        return (family.hard(logits) & (rank < budget)) | (rank == 0)


class ScoreFunction(Estimator):
    """REINFORCE: E[(cost - c) * d log p(m) / d logits], where c, the control variate, is a moving average of the cost.

    It needs no gradient through the mask. The gradient by the values is the ordinary one through the drawn masks.
    """

    start = 0.5
    # The noise of this estimator would hide a multiplier as small as that of the pathwise gradient.
    largest = 1000.0

    def __init__(self, samples: int = 4, memory: float = 0.9) -> None:
        """`memory` is the decay of the control variate."""
        self.samples = samples
        self._memory = memory
        self._control: Float[Tensor, " runs"] | None = None

    def first_logits(
        self, generators: list[torch.Generator], shape: tuple[int, int], device: torch.device
    ) -> Logits:
        """Every unit is on with probability one half."""
        return torch.zeros(len(generators), *shape, device=device)

    def term(self, family: MaskFamily, logits: Logits, drawn: Drawn, cost: Costs) -> Float[Tensor, " runs"]:
        log_p = family.log_probability(drawn, logits[:, None]).sum(-1).sum(-1)
        advantage = cost.detach() - self.control(cost.detach())[:, None]
        return cost.mean(1) + (advantage * log_p).mean(1)

    def hard(self, family: MaskFamily, logits: Logits, budget: int) -> Bool[Tensor, "runs masks units"]:
        """The `budget` likeliest units. Probabilities often stay below one half, so that the paper's rule would select
        no unit."""
        return torch.zeros_like(logits, dtype=torch.bool).scatter_(-1, logits.topk(budget).indices, True)

    def control(self, cost: Costs) -> Float[Tensor, " runs"]:
        """The control variate: the moving average of past costs, at the first update the mean of `cost`."""
        return cost.mean(1) if self._control is None else self._control

    def follow(self, cost: Costs) -> None:
        control = self.control(cost)
        moved = control + (1 - self._memory) * (cost.mean(1) - control)
        self._control = moved if self._control is None else self._control.copy_(moved)

    def state(self) -> dict[str, Any]:
        return {"control": self._control}

    def restore(self, state: dict[str, Any], device: torch.device) -> None:
        control = state["control"]
        self._control = None if control is None else control.to(device)


def uniform(
    generators: list[torch.Generator], shape: tuple[int, ...], device: torch.device
) -> Float[Tensor, "runs ..."]:
    """Noise in (0, 1). Each run has its own generator, so that its noise does not depend on the number of runs."""
    drawn = torch.stack([torch.rand(shape, generator=g) for g in generators])
    # A copy from ordinary memory waits until the GPU has done everything before it.
    return drawn.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else drawn.to(device)


MASKS: Registry[MaskFamily] = Registry("masks", __name__, MaskFamily)  # type: ignore[type-abstract]
