"""What the units of an untouched model are like at the steps that an intervention would edit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.models.base import LanguageModel
from pivotal.tree import Span
from pivotal.units import UnitSpace


@dataclass(frozen=True, slots=True)
class Activations:
    """Moments of each unit over the distinct states that are to be edited."""

    target: Float[Tensor, "directions units"]
    """Per direction, the mean where the model already prefers that label: what a natural value would be."""
    own: Float[Tensor, "directions units"]
    """Per direction, the mean where the model is to be flipped to that label, before it is."""
    scale: Float[Tensor, " units"]
    """The standard deviation over all of them."""


@dataclass(frozen=True, slots=True)
class Standard:
    """The measure in which values are learned: x in `mean + scale * x`, so that one learning rate serves units that
    move by hundredths and units that move by hundreds. Units of bounded sites keep their own measure."""

    mean: Float[Tensor, " units"]
    scale: Float[Tensor, " units"]

    @staticmethod
    def of(space: UnitSpace, activations: Activations) -> Standard:
        """A unit that hardly moves gets a tenth of its site's typical scale, lest it could not be moved at all."""
        mean, scale = activations.own.mean(0), activations.scale.clone()
        for site in space.sites:
            where = space.slice_of(site.name)
            if site.bounds is not None:
                mean[where], scale[where] = 0.0, 1.0
            else:
                typical = float(scale[where].median())
                scale[where] = scale[where].clamp(min=0.1 * typical if typical > 0 else 1.0)
        return Standard(mean, scale)

    @staticmethod
    def plain(units: int, device: torch.device) -> Standard:
        return Standard(torch.zeros(units, device=device), torch.ones(units, device=device))

    def values(self, x: Float[Tensor, "*rows units"]) -> Float[Tensor, "*rows units"]:
        return self.mean + self.scale * x

    def standardised(self, values: Float[Tensor, "*rows units"]) -> Float[Tensor, "*rows units"]:
        return (values - self.mean) / self.scale


@torch.no_grad()
def measure(model: LanguageModel, prepared: Any, space: UnitSpace, directions: int) -> Activations:
    recorder = _Recorder(space, directions, model.device)
    model.states(prepared, recorder)
    count = recorder.count.sum()
    mean = recorder.total.sum(0) / count
    variance = (recorder.squares.sum(0) / count - mean**2).clamp(min=0)
    # A direction without examples has no mean of its own.
    own = torch.where(
        recorder.count[:, None] > 0, recorder.total / recorder.count[:, None].clamp(min=1), mean
    )
    return Activations(target=own.flip(0), own=own, scale=variance.sqrt())


class _Recorder:
    """An edit that changes nothing and adds up what it sees."""

    runs = 1

    def __init__(self, space: UnitSpace, directions: int, device: torch.device) -> None:
        self._space = space
        self.sites = frozenset(site.name for site in space.sites)
        shape = (directions, len(space))
        self.total, self.squares = torch.zeros(shape, device=device), torch.zeros(shape, device=device)
        self.count = torch.zeros(directions, device=device)
        self._first = space.sites[0].name

    def __call__(
        self, site: str, spans: Sequence[Span], h: Float[Tensor, "nodes _ width"]
    ) -> Float[Tensor, "nodes _ width"]:
        where = self._space.slice_of(site)
        if where is not None:
            for span in spans:
                rows = h[span.start : span.stop, 0].float()
                self.total[span.direction, where] += rows.sum(0)
                self.squares[span.direction, where] += rows.square().sum(0)
                if site == self._first:
                    self.count[span.direction] += len(rows)
        return h
