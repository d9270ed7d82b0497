"""What the units of an untouched model are like at the steps that an intervention would edit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.models.base import LanguageModel
from pivotal.models.tree import Span
from pivotal.units import UnitSpace

_OUTERMOST = 0.01
"""The share of activations, on either side, that counts as outermost in a site without bounds."""


_STRIDE = 4.0
"""Standard deviations that the measure of an unbounded unit is: about what the measure of an LSTM's unit, the distance
from zero to its bound, is to that. One neuron that decides a phenomenon is set six or seven of them from its mean."""


@dataclass(frozen=True, slots=True)
class Activations:
    """Moments of each coordinate over the distinct states that are to be edited."""

    target: Float[Tensor, "directions coordinates"]
    """Per direction, the mean where the model already prefers that label: what a natural value would be."""
    own: Float[Tensor, "directions coordinates"]
    """Per direction, the mean where the model is to be flipped to that label, before it is."""
    scale: Float[Tensor, " coordinates"]
    """The standard deviation over all of them."""


@dataclass(frozen=True, slots=True)
class Standard:
    """The measure in which values are learned: x in `mean + scale * x`, so that one learning rate serves units that
    move by hundredths and units that move by hundreds. Units of bounded sites keep their own measure."""

    mean: Float[Tensor, " coordinates"]
    scale: Float[Tensor, " coordinates"]

    @staticmethod
    def of(space: UnitSpace, activations: Activations) -> Standard:
        """A unit that hardly moves gets a tenth of its site's typical scale, lest it could not be moved at all."""
        mean, scale = activations.own.mean(0), activations.scale.clone()
        for site in space.sites:
            where = space.coordinates_of(site.name)
            if site.bounds is not None:
                mean[where], scale[where] = 0.0, 1.0
            else:
                typical = float(scale[where].median())
                scale[where] = _STRIDE * scale[where].clamp(min=0.1 * typical if typical > 0 else 1.0)
        return Standard(mean, scale)

    @staticmethod
    def plain(coordinates: int, device: torch.device) -> Standard:
        return Standard(torch.zeros(coordinates, device=device), torch.ones(coordinates, device=device))

    def values(self, x: Float[Tensor, "*rows coordinates"]) -> Float[Tensor, "*rows coordinates"]:
        return self.mean + self.scale * x

    def standardised(self, values: Float[Tensor, "*rows coordinates"]) -> Float[Tensor, "*rows coordinates"]:
        return (values - self.mean) / self.scale


@torch.no_grad()
def measure(model: LanguageModel, prepared: Any, space: UnitSpace, directions: int) -> Activations:
    recorder = _Recorder(space, directions)
    model.states(prepared, recorder)
    own = torch.zeros(directions, space.coordinates, device=model.device)
    scale = torch.zeros(space.coordinates, device=model.device)
    for site in space.sites:
        seen = [torch.cat(rows) if rows else None for rows in recorder.rows[site.name]]
        everything = torch.cat([rows for rows in seen if rows is not None])
        low, high = _usual(everything) if site.bounds is None else (None, None)
        if low is not None:
            everything = everything.clamp(low, high)
        mean = everything.mean(0)
        where = space.coordinates_of(site.name)
        scale[where] = (everything.square().mean(0) - mean**2).clamp(min=0).sqrt()
        for direction, rows in enumerate(seen):
            # A direction without examples has no mean of its own.
            here = mean if rows is None else (rows if low is None else rows.clamp(low, high)).mean(0)
            own[direction, where] = here
    return Activations(target=own.flip(0), own=own, scale=scale)


def _usual(rows: Float[Tensor, "rows units"]) -> tuple[Float[Tensor, " units"], Float[Tensor, " units"]]:
    """Where all but the outermost of each unit's activations lie. Transformers have units that are thousands at the
    first token of a sentence and ones elsewhere: such a state must not decide what is usual."""
    outermost = int(_OUTERMOST * len(rows)) + 1
    return rows.topk(outermost, 0, largest=False).values[-1], rows.topk(outermost, 0).values[-1]


class _Recorder:
    """An edit that changes nothing and keeps what it sees, each state once."""

    runs = 1

    def __init__(self, space: UnitSpace, directions: int) -> None:
        self.sites = frozenset(site.name for site in space.sites)
        self.rows: dict[str, list[list[Tensor]]] = {
            site.name: [[] for _ in range(directions)] for site in space.sites
        }

    def __call__(
        self, site: str, spans: Sequence[Span], h: Float[Tensor, "nodes _ width"]
    ) -> Float[Tensor, "nodes _ width"]:
        if site in self.rows:
            for span in spans:
                distinct = h[span.start : span.stop - span.repeats, 0]
                self.rows[site][span.direction].append(distinct.float().clone())
        return h
