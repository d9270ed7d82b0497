"""Continuations by a transformer: from its own cache, by us or by its own `generate`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from pivotal.errors import PivotalError
from pivotal.models.bases.basis import Basis
from pivotal.models.bases.edit import own_site
from pivotal.models.edits import dense, spread
from pivotal.models.hooks import Tap, attach, edited, lent
from pivotal.models.intervened import Applied, Reading
from pivotal.models.layout import parts, rows
from pivotal.models.transformers.trunk import Trunk
from pivotal.records.intervention import Intervention
from pivotal.units import UnitSpace


class TransformersReading(Reading):
    """Keeps the model's own cache, so that a step computes one token of each text."""

    def __init__(
        self,
        trunk: Trunk,
        lock: AbstractContextManager[object],
        prompt: Sequence[int],
        priming: Sequence[int],
        texts: int,
        applied: Applied,
        device: torch.device,
    ) -> None:
        self._trunk, self._lock, self._applied, self._cache = trunk, lock, applied, None
        tree, edit = applied.tree([prompt]), applied.edit
        (part,) = parts(tree, len(prompt), shared=False)
        layout = rows(tree, part, priming, device)

        def apply(site: str, h: Float[Tensor, "1 steps width"]) -> Tensor:
            assert edit is not None
            return layout.apply(edit, site, 1, h.to(device)).to(h.device)

        self._next(layout.tokens, apply)
        if texts > 1:
            self.states = self.states.repeat(texts, 1)
            self._cache.batch_repeat_interleave(texts)  # type: ignore[attr-defined]

    def read(self, tokens: Int[Tensor, " texts"]) -> None:
        edit, spans = self._applied.edit, self._applied.later(len(tokens))
        if edit is None or not spans:
            self._next(tokens[:, None], None)
            return

        def apply(site: str, h: Float[Tensor, "texts 1 width"]) -> Tensor:
            number = h.float() if h.dtype.itemsize < 4 else h
            return edit(site, spans, number.to(self.states.device)).to(h)

        self._next(tokens[:, None], apply)

    def _next(self, tokens: Tensor, apply: Callable[[str, Tensor], Tensor] | None) -> None:
        with ExitStack() as stack:
            stack.enter_context(self._lock)
            if apply is not None and self._applied.edit is not None:
                stack.enter_context(edited(self._trunk.taps_of(self._applied.edit), apply))
            states, self._cache = self._trunk.next_states(tokens, self._cache)
        self.states = states.float() if states.dtype.itemsize < 4 else states


def set_by(
    intervention: Intervention, direction: int, space: UnitSpace
) -> dict[str, tuple[Int[Tensor, " set"], Float[Tensor, " set"]]]:
    """The coordinates of each site that an intervention sets in a direction, and their values."""
    mask, values = dense(intervention, space)
    on, values = spread(space, mask)[0, direction] > 0, values[0, direction]
    found = {}
    for site in space.sites:
        part = space.coordinates_of(site.name)
        at = on[part].nonzero()[:, 0]
        if len(at):
            found[site.name] = (at, values[part][at])
    return found


@contextmanager
def attached(
    model: nn.Module,
    taps: Sequence[Tap],
    values: dict[str, tuple[Tensor, Tensor]],
    bases: Mapping[str, Basis],
    priming: Sequence[int],
    cues: Sequence[int] | None,
) -> Iterator[nn.Module]:
    """The model with hooks that set coordinates in every pass, whoever runs it. `values` is what `set_by` returns.
    As everywhere, coordinates in the bases of a site are set before the site's own.

    `cues` are the positions of the edited tokens, one for each row or one for all; None edits every token.
    """
    where = _Where(priming, cues)
    with lent(model), ExitStack() as stack:
        if priming or cues is not None:
            stack.callback(model.register_forward_pre_hook(where.look, with_kwargs=True).remove)
        for tap in taps:
            for name, basis in bases.items():
                if own_site(name) == tap.site.name and name in values:
                    stack.callback(attach(tap, _SettingInBasis(*values[name], where, basis)).remove)
            if tap.site.name in values:
                stack.callback(attach(tap, _Setting(*values[tap.site.name], where)).remove)
        yield model


class _Where:
    """Which places of the present pass are edited; None for all of them."""

    def __init__(self, priming: Sequence[int], cues: Sequence[int] | None) -> None:
        self.edited: Bool[Tensor, "rows steps"] | None = None
        self._priming, self._cues = torch.tensor(priming), None if cues is None else torch.tensor(cues)

    def look(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        ids = kwargs.get("input_ids", args[0] if args else None)
        if ids is None:
            raise PivotalError(
                "The first tokens of a text tell where an intervention applies, but the model was given embeddings. "
                "Give input_ids."
            )
        place, first = _places(ids, kwargs), len(self._priming)
        if self._cues is not None:
            rows, cues = len(ids), self._cues.to(ids.device)
            if rows % len(cues):
                raise PivotalError(
                    f"There must be one cue, or one for each row, but there are {len(cues)} for {rows} rows."
                )
            # Beams and several samples of a prompt are rows below one another.
            self.edited = place == first + cues.repeat_interleave(rows // len(cues))[:, None]
        elif first:
            same = self._priming.to(ids.device)[place.clamp(0, first - 1)] == ids
            self.edited = ~(same & (place < first))

    def of(self, h: Tensor) -> Bool[Tensor, "*rows 1"] | None:
        """The edited places of an activation; None for all. Some models flatten rows and steps in their MLPs."""
        return None if self.edited is None else self.edited.to(h.device).reshape(h.shape[:-1])[..., None]


def _places(ids: Int[Tensor, "rows steps"], inputs: dict[str, Any]) -> Int[Tensor, "rows steps"]:
    """The index of each token in its text. Padding comes before the text and does not count."""
    steps, mask, positions = ids.shape[1], inputs.get("attention_mask"), inputs.get("position_ids")
    if isinstance(mask, Tensor) and mask.ndim == 2:
        return (mask.long().cumsum(-1) - 1)[:, -steps:]
    if isinstance(positions, Tensor) and positions.ndim == 2:
        return positions.expand_as(ids)
    past = inputs.get("past_key_values")
    start = 0 if past is None else int(past.get_seq_length())
    return torch.arange(start, start + steps, device=ids.device).expand_as(ids)


class _Setting:
    """Sets some coordinates of a site."""

    def __init__(self, at: Tensor, values: Tensor, where: _Where) -> None:
        self._at, self._values, self._where = at, values, where

    def __call__(self, h: Tensor) -> Tensor:
        if self._at.device != h.device or self._values.dtype != h.dtype:
            self._at, self._values = self._at.to(h.device), self._values.to(h)
        new, there, values = h.clone(), self._where.of(h), self._values
        if there is not None:
            values = torch.where(there, values, h[..., self._at])
        new[..., self._at] = values
        return new


class _SettingInBasis:
    """Sets some coordinates of a site in a basis."""

    def __init__(self, at: Tensor, values: Tensor, where: _Where, basis: Basis) -> None:
        self._at, self._values, self._where, self._basis = at, values, where, basis

    def __call__(self, h: Tensor) -> Tensor:
        wide = torch.promote_types(h.dtype, torch.float32)
        if self._at.device != h.device:
            self._at, self._values = self._at.to(h.device), self._values.to(h.device)
        basis, there = self._basis.to(h.device), self._where.of(h)
        z = basis.encode(h.to(wide), self._at)
        change = basis.decode(self._values.to(wide) - z, self._at).to(h.dtype)
        return h + (change if there is None else change * there)
