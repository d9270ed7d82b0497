"""An edit of coordinates as an edit of the activation that they are coordinates of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from pivotal.models.bases.basis import Basis
from pivotal.models.edits import Edit, MaskedEdit, runs_of, sites_of
from pivotal.models.tree import Span
from pivotal.units import Unit, UnitSpace

if TYPE_CHECKING:
    from pivotal.models.base import LanguageModel

_ENTRIES = 2**25
"""The most coordinates, times rows and runs, to compute at once. If there are more, the rows are divided, and the
backward pass computes the coordinates again."""


class EditInBases:
    """Makes an edit of sites in bases, such as `resid.12@pca`, an edit of the model's own sites.

    At a site, the coordinates in the bases are edited first. The edit then sees the site itself, with these changes.
    """

    def __init__(self, edit: Edit, bases: Mapping[str, Basis]) -> None:
        self._edit, self.runs = edit, runs_of(edit)
        self._wanted = wanted = sites_of(edit)
        self._at: dict[str, list[tuple[str, Basis]]] = {}
        for name, basis in bases.items():
            if wanted is None or name in wanted:
                self._at.setdefault(own_site(name), []).append((name, basis))
        self.sites = None if wanted is None else frozenset(own_site(name) for name in wanted)

    def __call__(
        self, site: str, spans: Sequence[Span], h: Float[Tensor, "nodes _ width"]
    ) -> Float[Tensor, "nodes _ width"]:
        for name, basis in self._at.get(site, ()):
            h = self._in_basis(name, basis, spans, h)
        if self._wanted is None or site in self._wanted:
            h = self._edit(site, spans, h)
        return h

    def _in_basis(self, name: str, basis: Basis, spans: Sequence[Span], h: Tensor) -> Tensor:
        if not spans:
            return h
        # A masked edit looks at the edited rows only. Other edits may look at any row, and are not divided.
        masked = self._edit if isinstance(self._edit, MaskedEdit) else None
        first, last = (0, len(h)) if masked is None else (spans[0].start, spans[-1].stop)
        columns = None if masked is None else masked.columns.get(name)
        wide = torch.promote_types(h.dtype, torch.float32)
        width = basis.coordinates if columns is None else len(columns)
        most = max(1, _ENTRIES // max(1, width * max(self.runs, h.shape[1])))
        stride = last - first if masked is None else min(most, last - first)

        def change(part: Tensor, here: Sequence[Span]) -> Tensor:
            z = basis.encode(part.to(wide), columns)
            return basis.decode(self._edit(name, here, z) - z, columns).to(h.dtype)

        def part_of(start: int, stop: int) -> Tensor:
            part, here = h[start:stop], _clipped(spans, start, stop)
            if stride < last - first and torch.is_grad_enabled():
                return part + checkpoint(change, part, here, use_reentrant=False)
            return part + change(part, here)

        new = [part_of(at, min(at + stride, last)) for at in range(first, last, stride)]
        runs = new[0].shape[1]
        before, after = (part.expand(-1, runs, -1) for part in (h[:first], h[last:]))
        return torch.cat([before, *new, after])


def in_own_sites(edit: Edit, bases: Mapping[str, Basis]) -> Edit:
    """The edit as one of the model's own sites; the edit itself if it changes no site in a basis."""
    sites = sites_of(edit)
    return EditInBases(edit, bases) if bases and (sites is None or sites & bases.keys()) else edit


def own_site(site: str) -> str:
    """The model's own site of a site in a basis."""
    return site.partition("@")[0]


def _clipped(spans: Sequence[Span], start: int, stop: int) -> list[Span]:
    """The spans within some rows, counted from the first of these rows."""
    clipped = []
    for span in spans:
        first, last = max(span.start, start), min(span.stop, stop)
        if first < last:
            nodes = None if span.nodes is None else span.nodes[first - span.start : last - span.start]
            clipped.append(replace(span, start=first - start, stop=last - start, nodes=nodes))
    return clipped


@torch.no_grad()
def writes_of(model: LanguageModel, units: Sequence[Unit]) -> Float[Tensor, "units width"] | None:
    """What `model.writes` returns, also for units in bases: a coordinate writes what its row of the decoder writes."""
    own = {site.name: site for site in model.sites}
    rows = []
    for unit in units:
        basis = model.bases.get(unit.site)
        if basis is None:
            written = model.writes([unit])
        else:
            site = own[own_site(unit.site)]
            one = torch.ones(1, 1, device=model.device)
            direction = basis.decode(one, torch.tensor([unit.index], device=model.device))
            each = model.writes(list(UnitSpace((site,)))) if site.size == 1 else None
            written = None if each is None else direction @ each
        if written is None:
            return None
        rows.append(written)
    return torch.cat(rows)
