"""The edit itself: h -> (1 - m) * h + m * b, at the rows that are to be edited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.intervention import Intervention
from pivotal.tree import Span
from pivotal.units import UnitSpace


@runtime_checkable
class Edit(Protocol):
    """A change of activations, called in-stream where a site is computed.

    `spans` says which rows are edited, and in which direction. The result may have more runs than `h` came with: up
    to the first edit all runs are the same and are computed once.
    """

    def __call__(
        self, site: str, spans: Sequence[Span], h: Float[Tensor, "nodes _ width"]
    ) -> Float[Tensor, "nodes _ width"]: ...


class MaskedEdit:
    """Replaces the masked units by the values of the row's direction (the paper's Equation 1), for R runs at once."""

    def __init__(
        self,
        space: UnitSpace,
        mask: Float[Tensor, "runs units"] | Float[Tensor, "runs directions units"],
        values: Float[Tensor, "runs directions units"],
    ) -> None:
        self._parts = {}
        directions = values.shape[1]
        for site in space.sites:
            where = space.slice_of(site.name)
            m = mask[..., where] if mask.ndim == 3 else mask[:, None, where].expand(-1, directions, -1)
            self._parts[site.name] = (m.unbind(1), values[..., where].unbind(1))
        self.reached = dict.fromkeys(self._parts, 0)

    @staticmethod
    def of(intervention: Intervention, space: UnitSpace, device: torch.device | str = "cpu") -> MaskedEdit:
        mask, values = dense(intervention, space, device)
        return MaskedEdit(space, mask, values)

    def __call__(
        self, site: str, spans: Sequence[Span], h: Float[Tensor, "nodes _ width"]
    ) -> Float[Tensor, "nodes _ width"]:
        part = self._parts.get(site)
        if part is None or not spans:
            return h
        masks, values = part
        pieces = []
        done = 0
        for span in spans:
            m, v = masks[span.direction], values[span.direction]
            if span.start > done:
                pieces.append(h[done : span.start].expand(-1, m.shape[0], -1))
            pieces.append(torch.lerp(h[span.start : span.stop], v, m.to(h.dtype)))
            done = span.stop
            self.reached[site] += span.stop - span.start
        if done < len(h):
            pieces.append(h[done:].expand(-1, pieces[-1].shape[1], -1))
        return torch.cat(pieces)

    def check_reached(self) -> None:
        """An edit that silently does nothing is the commonest trap of intervention tools: here it is an error."""
        missed = [site for site, rows in self.reached.items() if rows == 0]
        if missed:
            raise PivotalError(
                f"An edit must reach every site that it names, but it never reached {', '.join(missed)}. "
                "The model's adapter does not call the edit there, or no step of any sentence is edited."
            )


def dense(
    intervention: Intervention, space: UnitSpace, device: torch.device | str = "cpu"
) -> tuple[Float[Tensor, "1 directions units"], Float[Tensor, "1 directions units"]]:
    """Mask and values of an intervention over a whole unit space."""
    shape = (1, len(intervention.directions), len(space))
    mask, values = torch.zeros(shape), torch.zeros(shape)
    ids = [space.flat(unit) for unit in intervention.units]
    mask[0, :, ids] = torch.tensor(intervention.active, dtype=torch.float32)
    values[0, :, ids] = torch.tensor(intervention.values)
    return mask.to(device), values.to(device)
