"""Statistics of the units of the untouched model at the steps that an intervention edits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.models.base import LanguageModel
from pivotal.models.edits import Recorder
from pivotal.models.tree import PrefixTree
from pivotal.problem.batch import Work
from pivotal.problem.examples import Examples
from pivotal.units import Site, Unit, UnitSpace

Range: TypeAlias = tuple[Float[Tensor, " coordinates"], Float[Tensor, " coordinates"]]
"""The lower and the upper end of a range for each coordinate."""

SAMPLE = 512
"""Number of prefixes on which activations are measured."""
_OUTERMOST = 0.01
"""The share of activations on each side that counts as outliers in a site without bounds."""
_BLOCK = 2048
"""The coordinates of a basis that are computed at once."""
_STRIDE = 4.0
"""The scale of an unbounded unit in standard deviations. It is similar for the units of an LSTM, whose scale is their
bound. A neuron that decides a phenomenon alone is set six or seven standard deviations from its mean."""


@dataclass(frozen=True, slots=True)
class Activations:
    """Mean, standard deviation and range of each coordinate over the distinct states to edit."""

    target: Float[Tensor, "directions coordinates"]
    """For each direction, the mean where the model already prefers that label. It is a natural value."""
    own: Float[Tensor, "directions coordinates"]
    """For each direction, the mean in the untouched model where it is to be flipped to that label."""
    scale: Float[Tensor, " coordinates"]
    """The standard deviation over both directions."""
    ends: Range
    """The 1st and the 99th percentile."""


@dataclass(frozen=True, slots=True)
class Standard:
    """The scale on which values are learned: x in `mean + scale * x`. One learning rate then works for units that vary
    by hundredths and for units that vary by hundreds. Units of bounded sites are not rescaled."""

    mean: Float[Tensor, " coordinates"]
    scale: Float[Tensor, " coordinates"]

    @staticmethod
    def of(space: UnitSpace, activations: Activations) -> Standard:
        """A unit that hardly varies gets a tenth of the median scale of its site, so that it can still be changed."""
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

    @staticmethod
    def within(low: Float[Tensor, " coordinates"], high: Float[Tensor, " coordinates"]) -> Standard:
        """The scale on which the range of every unit is -1 to 1."""
        half = (high - low) / 2
        return Standard((low + high) / 2, torch.where(half > 0, half, torch.ones_like(half)))


class Measured:
    """Statistics of the states to edit, measured once, on a sample of the prefixes of a problem.

    It refers to no problem. A problem keeps its samples; if these referred back to it, the model would stay in memory
    until Python looks for cycles, which can take many large models.
    """

    def __init__(self, model: LanguageModel, examples: Examples, space: UnitSpace, work: Work) -> None:
        self._model, self._examples, self._space, self._work = model, examples, space, work

    @cached_property
    @torch.no_grad()
    def activations(self) -> Activations:
        """The statistics. Measuring them counts as work."""
        chosen = self._examples.sampled(SAMPLE)
        everyone = np.arange(len(self._examples.pairs))
        tree = self._examples.part(everyone if chosen is None else chosen, []).tree
        self._work.forward += tree.n_live
        return _measure(self._model, tree, self._space, len(self._examples.pairs.labels))


@torch.no_grad()
def states_of(
    model: LanguageModel, prepared: Any, tree: PrefixTree, units: Sequence[Unit]
) -> list[Float[Tensor, "edited _"]]:
    """The coordinates of some units at the edited nodes of a tree, in the untouched model."""
    columns: dict[str, list[int]] = {}
    places = []
    for unit in units:
        site = columns.setdefault(unit.site, [])
        places.append(slice(len(site), len(site) + unit.size))
        site += range(unit.index * unit.size, (unit.index + 1) * unit.size)
    recorder = Recorder(columns, tree, model.device)
    model.states(prepared, recorder)
    return [recorder.states[unit.site][:, place] for unit, place in zip(units, places, strict=True)]


@torch.no_grad()
def states_to_edit(
    model: LanguageModel, tree: PrefixTree, space: UnitSpace, directions: int
) -> list[Float[Tensor, "_ coordinates"]]:
    """The distinct states of one site to edit, for each direction."""
    (site,) = space.sites
    states, of = _recorded_in(model, tree, space, directions)
    return [states[site.name][rows] for rows in of]


def _recorded_in(
    model: LanguageModel, tree: PrefixTree, space: UnitSpace, directions: int
) -> tuple[dict[str, Tensor], list[Tensor]]:
    """The states to edit of a tree by site, and their rows for each direction. Where a site has no bounds, as in
    transformers, the first tokens of the sentences are left out: some units have activations in the thousands there,
    and only there."""
    if any(site.bounds is None for site in space.sites):
        tree = tree.without_first()
    recorder = Recorder({_recorded(site): slice(None) for site in space.sites}, tree, model.device)
    model.states(model.prepare(tree), recorder)
    direction = torch.as_tensor(tree.direction[tree.edited], device=model.device)
    return recorder.states, [(direction == d).nonzero()[:, 0] for d in range(directions)]


def _measure(model: LanguageModel, tree: PrefixTree, space: UnitSpace, directions: int) -> Activations:
    own = torch.zeros(directions, space.coordinates, device=model.device)
    low, high, scale = (torch.zeros(space.coordinates, device=model.device) for _ in range(3))
    for site, where, seen in _seen(model, space, *_recorded_in(model, tree, space, directions)):
        low[where], high[where] = usual(torch.cat(seen))
        if site.bounds is None:
            seen = [rows.clamp(low[where], high[where]) for rows in seen]
        everything = torch.cat(seen)
        mean = everything.mean(0)
        scale[where] = (everything.square().mean(0) - mean**2).clamp(min=0).sqrt()
        for direction, rows in enumerate(seen):
            # A direction without examples has no mean of its own.
            own[direction, where] = rows.mean(0) if len(rows) else mean
    return Activations(target=own.flip(0), own=own, scale=scale, ends=(low, high))


def usual(rows: Float[Tensor, "rows units"]) -> tuple[Float[Tensor, " units"], Float[Tensor, " units"]]:
    """The range of each unit's activations without outliers. Some units of transformers have activations in the
    thousands at the first token of a sentence. Such states must not decide the mean and the scale."""
    outermost, by_unit = int(_OUTERMOST * len(rows)) + 1, rows.T.contiguous()  # its rows are sorted faster
    return by_unit.topk(outermost, largest=False).values[:, -1], by_unit.topk(outermost).values[:, -1]


def _seen(
    model: LanguageModel, space: UnitSpace, states: dict[str, Tensor], of: list[Tensor]
) -> Iterator[tuple[Site, slice, list[Tensor]]]:
    """The recorded states of each site for each direction, and the place of their coordinates. A basis can have many
    thousands of coordinates, and they come in blocks."""
    for site in space.sites:
        start = space.coordinates_of(site.name).start
        rows = [states[_recorded(site)][some] for some in of]
        if not site.basis:
            yield site, space.coordinates_of(site.name), rows
            continue
        for columns in torch.arange(site.width, device=model.device).split(_BLOCK):
            first = start + int(columns[0])
            z = [model.bases[site.name].encode(h, columns) for h in rows]
            yield site, slice(first, first + len(columns)), z


def _recorded(site: Site) -> str:
    """The site whose states are recorded: of a site in a basis, the model's own site."""
    return site.within if site.basis else site.name
