"""Continuations by a transformer: from its own cache, by us or by its own `generate`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from pivotal.errors import PivotalError
from pivotal.models.edits import Edit
from pivotal.models.hooks import Tap, attach, edited, hooked, lent
from pivotal.models.intervened import Applied, Reading
from pivotal.models.layout import parts, rows
from pivotal.models.tensors import wide
from pivotal.models.transformers.trunk import Trunk
from pivotal.models.tree import Span


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

        def apply(site: str, h: Float[Tensor, "*places width"]) -> Tensor:
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

        def apply(site: str, h: Float[Tensor, "*places width"]) -> Tensor:
            rows = wide(h).reshape(len(tokens), 1, -1).to(self.states.device)
            return edit(site, spans, rows).reshape(h.shape).to(h)

        self._next(tokens[:, None], apply)

    def _next(self, tokens: Tensor, apply: Callable[[str, Tensor], Tensor] | None) -> None:
        with ExitStack() as stack:
            stack.enter_context(self._lock)
            if apply is not None and self._applied.edit is not None:
                stack.enter_context(edited(self._trunk.taps_of(self._applied.edit), apply))
            states, self._cache = self._trunk.next_states(tokens, self._cache)
        self.states = wide(states)


@contextmanager
def attached(
    model: nn.Module, taps: Sequence[Tap], edit: Edit, direction: int, where: Where, device: torch.device
) -> Iterator[nn.Module]:
    """The model with hooks that edit the places of `where` in every pass, whoever runs it."""

    def run(site: str, h: Tensor) -> Tensor:
        flat = h.reshape(-1, 1, h.shape[-1]).to(device, torch.promote_types(h.dtype, torch.float32))
        new = edit(site, (Span(0, len(flat), direction),), flat).reshape(h.shape).to(h)
        edited = where.of(h)
        return new if edited is None else torch.where(edited, new, h)

    with (
        lent(model),
        hooked([model.register_forward_pre_hook(where.look, with_kwargs=True)]),
        hooked(attach(tap, partial(run, tap.site.name)) for tap in taps),
    ):
        yield model


class Where:
    """Which places of the present pass are edited; None for all of them.

    `cues` are the positions of the edited tokens, one for each row or one for all; None edits every token after the
    priming."""

    def __init__(self, priming: Sequence[int], cues: Sequence[int] | None) -> None:
        self.edited: Bool[Tensor, "rows steps"] | None = None
        # The tokens that texts begin with, and one that no text has.
        self._priming, self._cues = torch.tensor([*priming, -1]), None if cues is None else torch.tensor(cues)

    def look(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A hook of the whole model, before each of its passes."""
        if len(self._priming) == 1 and self._cues is None:
            return
        ids = kwargs.get("input_ids", args[0] if args else None)
        if ids is None:
            raise PivotalError("An intervention needs the tokens of a text, not embeddings. Give input_ids.")
        place, first = _places(ids, kwargs), len(self._priming) - 1
        begins = self._priming.to(ids.device)[place.clamp(0, first)]
        if self._cues is None:
            self.edited = begins != ids
            return
        if bool(((place >= 0) & (begins >= 0) & (begins != ids)).any()):
            raise PivotalError(
                "Cues are counted after the text that the model reads before a sentence, so every prompt must begin "
                f"with its tokens, {self._priming[:-1].tolist()}, but one does not. Put this text before each prompt."
            )
        rows, cues = len(ids), self._cues.to(ids.device)
        if rows % len(cues):
            raise PivotalError(f"There must be one cue, or one for each of the {rows} rows, not {len(cues)}.")
        # Beams and several samples of a prompt are rows below one another.
        self.edited = place == first + cues.repeat_interleave(rows // len(cues))[:, None]

    def of(self, h: Tensor) -> Bool[Tensor, "*rows 1"] | None:
        """The edited places of an activation; None for all. Some models flatten rows and steps in their MLPs."""
        return None if self.edited is None else self.edited.to(h.device).reshape(h.shape[:-1])[..., None]


def _places(ids: Int[Tensor, "rows steps"], inputs: dict[str, Any]) -> Int[Tensor, "rows steps"]:
    """The index of each token in its text. Padding comes before the text and does not count."""
    mask, positions, past = map(inputs.get, ("attention_mask", "position_ids", "past_key_values"))
    start, steps = 0 if past is None else int(past.get_seq_length()), ids.shape[1]
    if isinstance(mask, Tensor) and mask.ndim == 2:
        # The mask of a static cache is as long as the cache.
        end = mask.shape[1] if past is None else start + steps
        return (mask.long().cumsum(-1) - 1)[:, end - steps : end]
    if isinstance(positions, Tensor) and positions.ndim == 2:
        # With a static cache, padding has position 0 as well: a text begins at the last 0.
        zeros = positions.eq(0).flip(-1).cumsum(-1).flip(-1)
        return torch.where(positions.eq(0) & (zeros > 1), -1, positions).expand_as(ids)
    return torch.arange(start, start + steps, device=ids.device).expand_as(ids)
