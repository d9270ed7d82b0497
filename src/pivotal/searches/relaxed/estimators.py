"""Estimators of the gradient of the expected cost by the mask logits, from sampled masks."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pivotal.searches.masks.base import Estimator, MaskFamily


class Pathwise(Estimator):
    """The gradient through a mask that is a differentiable function of logits and noise."""

    start = 1.0
    largest = 20.0

    def first_logits(
        self, generators: list[torch.Generator], shape: tuple[int, int], device: torch.device
    ) -> Float[Tensor, "runs masks units"]:
        return 1.0 + 0.2 * (uniform(generators, shape, device) - 0.5)

    def term(
        self,
        family: MaskFamily,
        logits: Float[Tensor, "runs masks units"],
        drawn: Float[Tensor, "runs samples masks units"],
        cost: Float[Tensor, "runs samples"],
    ) -> Float[Tensor, " runs"]:
        return cost.mean(1)

    def hard(
        self, family: MaskFamily, logits: Float[Tensor, "runs masks units"], budget: int
    ) -> Bool[Tensor, "runs masks units"]:
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
    ) -> Float[Tensor, "runs masks units"]:
        """Every unit is on with probability one half."""
        return torch.zeros(len(generators), *shape, device=device)

    def term(
        self,
        family: MaskFamily,
        logits: Float[Tensor, "runs masks units"],
        drawn: Float[Tensor, "runs samples masks units"],
        cost: Float[Tensor, "runs samples"],
    ) -> Float[Tensor, " runs"]:
        log_p = family.log_probability(drawn, logits[:, None]).sum(-1).sum(-1)
        advantage = cost.detach() - self.control(cost.detach())[:, None]
        return cost.mean(1) + (advantage * log_p).mean(1)

    def hard(
        self, family: MaskFamily, logits: Float[Tensor, "runs masks units"], budget: int
    ) -> Bool[Tensor, "runs masks units"]:
        """The `budget` likeliest units. Probabilities often stay below one half, so that the paper's rule would select
        no unit."""
        return torch.zeros_like(logits, dtype=torch.bool).scatter_(-1, logits.topk(budget).indices, True)

    def control(self, cost: Float[Tensor, "runs samples"]) -> Float[Tensor, " runs"]:
        """The control variate: the moving average of past costs, at the first update the mean of `cost`."""
        return cost.mean(1) if self._control is None else self._control

    def follow(self, cost: Float[Tensor, "runs samples"]) -> None:
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
