"""Edits of activations: h -> (1 - m) * h + m * b, at the edited rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.models.tree import PrefixTree, Span
from pivotal.records.intervention import Intervention
from pivotal.units import Site, UnitSpace


@runtime_checkable
class Edit(Protocol):
    """A change of activations. A model calls it where it computes a site, and continues with the result.

    `spans` are the rows to edit, with their directions. The result may have more runs than `h`: before the first edit
    all runs are equal and are computed once. An edit may have the attributes `sites`, the sites that it changes, and
    `runs`, the number of runs that it returns (see `sites_of`, `runs_of`). A model can then skip what does not change.
    """

    def __call__(
        self, site: str, spans: Sequence[Span], h: Float[Tensor, "nodes _ width"]
    ) -> Float[Tensor, "nodes _ width"]: ...


def sites_of(edit: Edit) -> frozenset[str] | None:
    """The sites that an edit changes; None if it may change any site."""
    return getattr(edit, "sites", None)


def runs_of(edit: Edit) -> int:
    """The number of runs that an edit returns."""
    return getattr(edit, "runs", 1)


@dataclass(frozen=True)
class Sources:
    """States that rows take instead of values: the states of the nodes of another tree."""

    states: Mapping[str, Float[Tensor, "sources coordinates"]]
    """By site."""
    of: Int[Tensor, " nodes"]
    """For each node of the tree that is run, the node whose state it takes."""

    def at(self, site: str, span: Span) -> Float[Tensor, "rows 1 width"]:
        if span.nodes is None:
            raise PivotalError(
                "An interchange needs spans with nodes, such as those of PrefixTree.levels and pivotal.models.layout."
            )
        return self.states[site][self.of[span.nodes]][:, None]


class _Replace(torch.autograd.Function):
    """(1 - m) * h + m * v in the spans, h elsewhere. v is one row for a span, or a constant row for each of its rows.

    One autograd node needs half as many passes over memory as interpolation and concatenation, which saves a tenth of a
    search's time on a CPU.
    """

    @staticmethod
    def forward(ctx: Any, h: Tensor, spans: Sequence[Span], *chosen: Tensor) -> Tensor:  # type: ignore[override]
        runs = max(h.shape[1], chosen[0].shape[0])
        out = h.new_empty(len(h), runs, h.shape[2])
        done = 0
        for span, m, v in zip(spans, chosen[::2], chosen[1::2], strict=True):
            out[done : span.start] = h[done : span.start]
            torch.lerp(h[span.start : span.stop], v, m, out=out[span.start : span.stop])
            done = span.stop
        out[done:] = h[done:]
        ctx.save_for_backward(h, *chosen)
        ctx.spans = spans
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        h, *chosen = ctx.saved_tensors
        grad_h = torch.empty_like(grad) if ctx.needs_input_grad[0] else None
        grads: list[Tensor | None] = []
        done = 0
        for span, m, v in zip(ctx.spans, chosen[::2], chosen[1::2], strict=True):
            g = grad[span.start : span.stop]
            if grad_h is not None:
                grad_h[done : span.start] = grad[done : span.start]
                torch.mul(g, 1 - m, out=grad_h[span.start : span.stop])
                done = span.stop
            total = g.sum(0)
            needs_m = ctx.needs_input_grad[2 + len(grads)]
            replaced = v * total if v.ndim == 2 else (g * v).sum(0)
            grads.append(replaced - (g * h[span.start : span.stop]).sum(0) if needs_m else None)
            grads.append(m * total if v.ndim == 2 else None)
        if grad_h is not None:
            grad_h[done:] = grad[done:]
            if h.shape[1] != grad.shape[1]:
                grad_h = grad_h.sum(1, keepdim=True)
        return grad_h, None, *grads


_MANY = 8
"""With at least this many sites, it pays on a GPU to look up which of them a hard mask leaves unchanged: a model can
skip them. With fewer sites, the look-up only makes a GPU wait. On a CPU it always pays."""


def touched(space: UnitSpace, mask: Float[Tensor, "*rows units"]) -> tuple[Site, ...]:
    """The sites where the mask is not zero, or the last site if there is none. A GPU has to wait for the answer."""
    used = (mask != 0).flatten(0, -2).any(0)
    sizes = [site.width for site in space.sites]
    is_touched = torch.stack([part.any() for part in used.split(sizes)]).tolist()
    return tuple(site for site, on in zip(space.sites, is_touched, strict=True) if on) or space.sites[-1:]


def spread(space: UnitSpace, of_units: Shaped[Tensor, "*rows units"]) -> Shaped[Tensor, "*rows coordinates"]:
    """Repeat the entry of each unit for each of its coordinates."""
    if space.plain:
        return of_units
    parts = of_units.split([site.width for site in space.sites], -1)
    return torch.cat([_each(part, site.size) for part, site in zip(parts, space.sites, strict=True)], -1)


def _each(of_units: Tensor, size: int) -> Tensor:
    return of_units if size == 1 else of_units.repeat_interleave(size, -1)


def gathered(
    space: UnitSpace, of_coordinates: Float[Tensor, "*rows coordinates"]
) -> Float[Tensor, "*rows units"]:
    """The sum over the coordinates of each unit."""
    parts = of_coordinates.split([site.coordinates for site in space.sites], -1)
    of_sites = zip(parts, space.sites, strict=True)
    return torch.cat([part.unflatten(-1, (site.width, site.size)).sum(-1) for part, site in of_sites], -1)


class MaskedEdit:
    """Replaces masked units by the values of the row's direction (the paper's Equation 1), for R runs at once."""

    def __init__(
        self,
        space: UnitSpace,
        mask: Float[Tensor, "runs units"] | Float[Tensor, "runs directions units"],
        values: Float[Tensor, "runs directions coordinates"],
        *,
        zeros_stay: bool = False,
        sources: Sources | None = None,
        sites: tuple[Site, ...] | None = None,
    ) -> None:
        """With `zeros_stay`, a zero of the mask has no gradient, as in a Hard Concrete mask. A site whose mask is all
        zeros then needs no edit. With `sources`, units take the states of other nodes, and `values` only says how many
        directions there are. `sites` are those that the mask touches, if they are known."""
        self.runs = mask.shape[0]
        if sites is None:
            few = (mask.is_cuda and len(space.sites) < _MANY) or (mask.requires_grad and not zeros_stay)
            sites = space.sites if few else touched(space, mask)
        self.sites = frozenset(site.name for site in sites)
        self._parts = {}
        self.columns: dict[str, Tensor] = {}
        """Of a site in a basis, the coordinates that are edited. The model computes no others, which matters if there
        are thousands of them."""
        self._sources = sources
        directions = values.shape[1]
        for site in sites:
            where = space.slice_of(site.name)
            m = mask[..., where] if mask.ndim == 3 else mask[:, None, where].expand(-1, directions, -1)
            at = values[..., space.coordinates_of(site.name)]
            if site.basis and (zeros_stay or not mask.requires_grad):
                chosen = (mask[..., where] != 0).flatten(0, -2).any(0).nonzero()[:, 0]
                self.columns[site.name] = chosen
                m, at = m[..., chosen], at[..., chosen]
            self._parts[site.name] = (_each(m, site.size).unbind(1), at.unbind(1))
        self.reached = dict.fromkeys(self._parts, 0)

    @staticmethod
    def of(intervention: Intervention, space: UnitSpace, device: torch.device | str = "cpu") -> MaskedEdit:
        """The edit of an intervention."""
        mask, values = dense(intervention, space, device)
        return MaskedEdit(space, mask, values)

    def __call__(
        self, site: str, spans: Sequence[Span], h: Float[Tensor, "nodes _ width"]
    ) -> Float[Tensor, "nodes _ width"]:
        part = self._parts.get(site)
        if part is None or not spans:
            return h
        columns = self.columns.get(site)
        # Another edit around this one may want every coordinate.
        if columns is not None and h.shape[-1] != len(columns):
            new = self(site, spans, h[..., columns])
            return h.expand(-1, new.shape[1], -1).index_copy(-1, columns, new)
        masks, values = part
        self.reached[site] += sum(span.stop - span.start for span in spans)
        # Masks and values are float32, whatever the model computes in.
        chosen: list[Tensor] = []
        for span in spans:
            value = values[span.direction]
            if self._sources is not None:
                value = self._sources.at(site, span)
                value = value if columns is None else value[..., columns]
            chosen += [masks[span.direction].to(h.dtype), value.to(h.dtype)]
        return _Replace.apply(h, spans, *chosen)

    def check_reached(self) -> None:
        """Raise PivotalError if a site was never reached: an edit must not silently do nothing."""
        missed = [site for site, rows in self.reached.items() if rows == 0]
        if missed:
            raise PivotalError(
                f"The edit never reached {', '.join(missed)}: the model computes it in another way, perhaps in fused "
                "kernels, its adapter does not call the edit there, or no step is edited. Choose other sites."
            )


class Recorder:
    """An edit that changes nothing and records the untouched states of the edited nodes of a tree, each once, even if a
    model repeats a pass for lack of memory."""

    runs = 1

    def __init__(
        self, columns: Mapping[str, slice | list[int]], tree: PrefixTree, device: torch.device
    ) -> None:
        """`columns` are the coordinates to record, by site."""
        self._columns, self._edited = columns, int(tree.edited.sum())
        self._row = torch.as_tensor(np.cumsum(tree.edited) - 1, device=device)
        self.sites = frozenset(columns)
        self.states: dict[str, Float[Tensor, "edited columns"]] = {}
        """By site, in the order of the nodes."""

    def __call__(
        self, site: str, spans: Sequence[Span], h: Float[Tensor, "rows _ width"]
    ) -> Float[Tensor, "rows _ width"]:
        for span in spans if site in self._columns else ():
            rows = h[span.rows, 0][:, self._columns[site]].float()
            states = self.states.setdefault(site, rows.new_zeros(self._edited, rows.shape[1]))
            states[self._row[span.nodes_of_rows]] = rows
        return h


def dense(
    intervention: Intervention, space: UnitSpace, device: torch.device | str = "cpu"
) -> tuple[Float[Tensor, "1 directions units"], Float[Tensor, "1 directions coordinates"]]:
    """The mask and values of an intervention over a whole unit space."""
    for site in space.sites:
        basis = intervention.bases.get(site.name)
        if basis is not None and basis.card.fingerprint != site.basis:
            raise PivotalError(
                f"The units of {site.name} were found in the basis {basis.card.fingerprint}, but the model has "
                f"{site.basis} there. Apply the intervention to model.in_bases(intervention.bases)."
            )
    directions = len(intervention.directions)
    mask, values = torch.zeros(1, directions, len(space)), torch.zeros(1, directions, space.coordinates)
    ids = [space.flat(unit) for unit in intervention.units]
    mask[0, :, ids] = torch.tensor(intervention.active, dtype=torch.float32)
    at = [coordinate for unit in intervention.units for coordinate in space.places(unit)]
    values[0, :, at] = torch.tensor(intervention.values)
    return mask.to(device), values.to(device)
