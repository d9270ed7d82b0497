"""The paths of an edit: straight to the output projection, or through later layers and steps."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.models.base import LanguageModel
from pivotal.models.bases.edit import writes_of
from pivotal.models.edits import Sources, dense
from pivotal.models.tree import Span
from pivotal.problem.problem import Problem
from pivotal.records.evidence import Paths
from pivotal.records.intervention import Intervention

_PREFIXES = 128


@torch.no_grad()
def paths_of(intervention: Intervention, problem: Problem) -> Paths:
    """How much of the change of the log odds needs no later layer and no later step."""
    part = problem.sample(_PREFIXES)
    last = part.at_last_step()
    mask, values = dense(intervention, part.space, part.model.device)
    before = part.clean_log_ratio
    total = float((before - part.run(mask, values).log_ratio[0]).mean())
    # An edit at an earlier word reaches the last step only through later steps.
    there = torch.as_tensor(part.tree.edited[part.tree.leaf], device=before.device)

    def share(log_ratio: Float[Tensor, " examples"]) -> float:
        return float(((before - log_ratio) * there).mean()) / total if total else 0.0

    writes = writes_of(part.model, intervention.units)
    direct = None
    if writes is not None:
        straight = _Straight(part.model, intervention, writes, last.sources)
        direct = share(last.log_ratio_of(part.model.states(last.tensors.prepared, straight))[0])
    return Paths(change=total, last_step=share(last.run(mask, values).log_ratio[0]), direct=direct)


class _Straight:
    """An edit that adds to the last layer what the set units write there, and changes nothing else.

    A model calls it for the same rows site by site, the last layer at the end.
    """

    runs = 1

    def __init__(
        self,
        model: LanguageModel,
        intervention: Intervention,
        writes: Float[Tensor, "units width"],
        sources: Sources | None = None,
    ) -> None:
        self._last = model.layers[-1].name
        self._intervention, self._writes, self._sources = intervention, writes, sources
        self._values = torch.tensor(intervention.values, device=writes.device)
        self._active = torch.tensor(intervention.active, device=writes.device)
        self.sites = frozenset(unit.site for unit in intervention.units) | {self._last}
        self._added: Tensor | None = None

    def __call__(
        self, site: str, spans: Sequence[Span], h: Float[Tensor, "rows _ width"]
    ) -> Float[Tensor, "rows _ width"]:
        if not spans:
            return h
        if self._added is None:
            self._added = torch.zeros(len(h), self._writes.shape[1], device=h.device)
        units = [i for i, unit in enumerate(self._intervention.units) if unit.site == site]
        if units:
            at = torch.tensor([self._intervention.units[i].index for i in units], device=h.device)
            for span in spans:
                rows = slice(span.start, span.stop)
                given = self._values[span.direction, units]
                if self._sources is not None:
                    given = self._sources.at(site, span)[:, 0][:, at]
                moved = (given - h[rows, 0][:, at].float()) * self._active[span.direction, units]
                self._added[rows] += moved @ self._writes[units]
        if site != self._last:
            return h
        added, self._added = self._added, None
        return h + added[:, None].to(h.dtype)
