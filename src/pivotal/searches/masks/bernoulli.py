"""The Bernoulli distribution: the binary mask of the paper's REINFORCE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import logsigmoid

from pivotal.searches.masks import Entries, Estimator, MaskFamily, ScoreFunction


@dataclass(frozen=True)
class Bernoulli(MaskFamily):
    """m = 1 with probability sigmoid(logit), otherwise 0. The score function estimates the gradient."""

    name: ClassVar[str] = "bernoulli"
    summary: ClassVar[str] = "binary mask; gradient by the score function (REINFORCE)"

    def sample(self, logits: Entries, uniform: Entries) -> Entries:
        return (uniform < logits.detach().sigmoid()).to(logits.dtype)

    def nonzero(self, logits: Entries) -> Entries:
        return logits.sigmoid()

    def fractional(self, logits: Entries) -> Entries:
        return torch.zeros_like(logits)

    def mean(self, logits: Entries) -> Entries:
        return logits.sigmoid()

    def log_probability(
        self, mask: Float[Tensor, "*#entries"], logits: Float[Tensor, "*#entries"]
    ) -> Float[Tensor, "*#entries"]:
        return mask * logsigmoid(logits) + (1 - mask) * logsigmoid(-logits)

    def estimator(self) -> Estimator:
        return ScoreFunction()
