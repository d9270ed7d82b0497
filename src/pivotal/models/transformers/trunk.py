"""Runs a transformer over a layout of nodes, with edits by hooks, cached frozen nodes, and skipped blocks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pivotal.models.edits import Edit, runs_of, sites_of
from pivotal.models.hooks import (
    Tap,
    check_not_lent,
    edited,
    first_input,
    hooked,
    running,
    with_first_input,
)
from pivotal.models.layout import Layout, packed, parts, rows
from pivotal.models.transformers.anatomy import Anatomy, probe_tokens
from pivotal.models.tree import PrefixTree, Span

Past = list[tuple[Tensor, Tensor]]
"""The keys and values of every layer, for one run."""


KEPT, _ENTRIES = 7, 11
"""The number of blocks whose inputs are kept of a pass of the untouched model, and of those whose inputs are cached for
a part of a tree: a search narrows down to few sites gradually."""


_TF32 = 2.0**-10
"""The spacing of the numbers next to 1 in the format in which a GPU may multiply float32 numbers."""
_MARGIN = 2.0
"""The largest difference of two ways to compute a state, as a multiple of the error that `Trunk.rounding` estimates.
With stochastic rounding to bfloat16, two right ways differ by 1.0 to 1.5 times the estimate, and a single position that
is wrong by one gives 3.5 times (SmolLM2-135M) and 4.9 times (a Llama of 32 layers, width 2,048, random weights)."""


class _Reached(Exception):
    """Raised to stop a pass at the block whose input is wanted."""


class Trunk:
    """The model up to its output projection.

    Loading tries three optimisations on a small tree and compares them with plain rows of tokens: `packs` (the tree as
    one row with a mask), `caches` (frozen nodes as keys and values), `skips` (start at the first edited block).
    """

    def __init__(self, model: nn.Module, anatomy: Anatomy, vocabulary: int, device: torch.device) -> None:
        self._model, self._anatomy, self._device = model, anatomy, device
        self._dtype, self._vocabulary = anatomy.states.dtype, vocabulary
        self.packs = self.caches = self.skips = False
        self._try()

    # -- one pass -----------------------------------------------------------------------------------------------

    def states(
        self, layout: Layout, past: Past | None, edit: Edit | None, entries: dict[int, Tensor]
    ) -> Float[Tensor, "nodes runs width"]:
        """The last states of the layout's nodes. `entries` caches the inputs of first edited blocks between calls. A
        pass without an edit replaces empty ones."""
        if edit is None:
            with hooked([self._caught(block, entries) for block, h in entries.items() if not len(h)]):
                return layout.pick(self._forward(layout, past, 1), 1)
        runs, taps = runs_of(edit), self.taps_of(edit)
        first = min((tap.block for tap in taps), default=0) if self.skips else 0
        if first and first not in entries:
            self._enter(layout, past, first, entries)

        def apply(site: str, h: Tensor) -> Tensor:
            return layout.apply(edit, site, runs, h.to(self._device)).to(h.device)

        with edited(taps, apply):
            return layout.pick(self._forward(layout, past, runs, first, entries.get(first)), runs)

    def taps_of(self, edit: Edit) -> list[Tap]:
        """Where the sites that an edit changes are computed."""
        wanted = sites_of(edit)
        return [tap for tap in self._anatomy.taps if wanted is None or tap.site.name in wanted]

    @torch.no_grad()
    def next_states(
        self, tokens: Int[Tensor, "texts steps"], cache: Any
    ) -> tuple[Float[Tensor, "texts width"], Any]:
        """The states after the last of some more tokens of each text, and the model's own cache of what it has read,
        None before the first token."""
        inputs = {"input_ids": tokens, "past_key_values": cache, "use_cache": True, "return_dict": True}
        states, returned = self._call(inputs)
        return states[:, -1], returned.past_key_values

    @cached_property
    def continues(self) -> bool:
        """Whether the model can continue from its cache. Tried at the first use, since only continuations need it."""
        check_not_lent(self._model)
        tokens = probe_tokens(self._vocabulary, self._device)[:, :4]
        try:
            whole, _ = self.next_states(tokens, None)
            _, cache = self.next_states(tokens[:, :2], None)
            cache.batch_repeat_interleave(2)
            for step in (2, 3):
                continued, cache = self.next_states(tokens[:, step : step + 1].repeat(2, 1), cache)
        except Exception:  # models keep what they have read in many ways
            return False
        return self._close(continued, whole)

    def _close(self, states: Float[Tensor, "*rows width"], expected: Float[Tensor, "*whole width"]) -> bool:
        """Whether states that were computed in two ways differ by no more than rounding. The shapes may broadcast."""
        if self._eps is None:
            return float((states - expected).abs().max()) <= 1e-4 * float(expected.abs().max())
        return _difference(states, expected) <= _MARGIN * self.rounding

    @cached_property
    def _eps(self) -> float | None:
        """The spacing of the numbers next to 1 if passes have few digits; None in float32 on a CPU."""
        if self._dtype.itemsize >= 4:
            return None if self._device.type == "cpu" else _TF32
        return torch.finfo(self._dtype).eps

    @cached_property
    @torch.no_grad()
    def rounding(self) -> float:
        """The relative error that rounding causes in the last states of this model with few digits.

        It grows with the depth and the width of a model, so that a fixed tolerance would refuse large models. To
        estimate it, the output of every block is changed at random by up to one step of the number format, which is
        more than one rounding can change it.
        """
        assert self._eps is not None
        eps, noise = self._eps, torch.Generator().manual_seed(0)

        def round_off(_: str, h: Tensor) -> Tensor:
            factor = 1 + eps * (2 * torch.rand(h.shape, generator=noise) - 1)
            return (h.float() * factor.to(h.device)).to(h.dtype)

        blocks = [tap for tap in self._anatomy.taps if tap.site.kind == "resid"]
        expected = self._ends(self._probes, "rows")
        with edited(blocks, round_off):
            return _difference(self._ends(self._probes, "rows"), expected)

    @torch.no_grad()
    def past(self, layout: Layout) -> Past:
        """The keys and values of the places of a layout."""
        cache = _cache(None, 1)
        self._forward(layout, cache, 1)
        return [(layer.keys, layer.values) for layer in cache.layers]

    @torch.no_grad()
    def _enter(self, layout: Layout, past: Past | None, block: int, entries: dict[int, Tensor]) -> None:
        """Cache the input of a block. It is the same for all runs if nothing before the block is edited."""
        start = max((kept for kept in entries if kept < block), default=0)
        with suppress(_Reached), hooked([self._caught(block, entries, stop=True)]):
            self._forward(layout, past, 1, start, entries.get(start))
        if len(entries) > _ENTRIES:
            # Not one that the first pass has kept: a resumed search must begin at the same blocks.
            del entries[list(entries)[KEPT]]

    def _caught(self, block: int, entries: dict[int, Tensor], *, stop: bool = False) -> Any:
        """Cache the input of a block in a pass. Returns the handle that removes the hook."""

        def look(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            entries[block] = first_input(args, kwargs).clone()  # the block may change it in place
            if stop:
                raise _Reached

        return self._anatomy.blocks[block].register_forward_pre_hook(look, with_kwargs=True)

    def _forward(
        self, layout: Layout, past: Any, runs: int, first: int = 0, entry: Tensor | None = None
    ) -> Tensor:
        """The input of the output projection, with the rows of all runs below one another. With `first`, the blocks
        before it are skipped, and it starts from `entry`."""
        with ExitStack() as stack:
            if first:
                assert entry is not None
                for block, outputs in zip(self._anatomy.blocks[:first], self._anatomy.outputs, strict=False):
                    stack.enter_context(running(block, _passing_on(outputs)))
                stack.callback(_feed(self._anatomy.blocks[first], _repeated(entry, runs)))
            return self._call(self._inputs(layout, past, runs))[0]

    def _call(self, inputs: dict[str, Any]) -> tuple[Tensor, Any]:
        """The input of the output projection, and what the model returns."""
        check_not_lent(self._model)
        caught: list[Tensor] = []

        def catch(h: Tensor, *_: Any, **__: Any) -> Tensor:
            caught.append(h)
            return h[..., :1]

        with running(self._anatomy.head, catch):
            returned = self._model(**inputs)
        return caught[0].to(self._device), returned

    def _inputs(self, layout: Layout, past: Any, runs: int) -> dict[str, Any]:
        inputs: dict[str, Any] = {
            "input_ids": _repeated(layout.tokens, runs),
            "use_cache": False,
            "return_dict": True,
        }
        if layout.sees is not None:
            mask = torch.zeros(layout.sees.shape, dtype=self._dtype, device=self._device)
            mask.masked_fill_(~layout.sees, torch.finfo(self._dtype).min)
            inputs["attention_mask"] = mask[None, None]
            inputs["position_ids"] = _repeated(layout.positions, runs)
        if past is not None:
            inputs["past_key_values"] = _cache(past, runs) if isinstance(past, list) else past
            inputs["use_cache"] = True
        return inputs

    # -- what the model can do ----------------------------------------------------------------------------------

    @torch.no_grad()
    def _try(self) -> None:
        expected = self._ends(self._probes, "rows")

        def agrees(how: str, sites: frozenset[str] = frozenset()) -> bool:
            try:
                states = self._ends(self._probes, how, sites)
            except Exception:  # models fail in many ways on a mask that they do not support
                return False
            return self._close(states, expected)

        self.packs = agrees("packed")
        self.caches = self.packs and agrees("cached")
        top = len(self._anatomy.blocks) - 1
        self.skips = True
        self.skips = agrees(
            "packed" if self.packs else "rows",
            frozenset(tap.site.name for tap in self._anatomy.taps if tap.block == top),
        )

    @cached_property
    def _probes(self) -> list[list[int]]:
        """Sequences of tokens that share beginnings."""
        a, b, c, d, e, f = probe_tokens(self._vocabulary, self._device)[0].tolist()
        return [[a, b, c], [a, b, d, e], [a, b, d, f, c], [a, f], [b, c, a]]

    def _ends(
        self, sequences: list[list[int]], how: str, sites: frozenset[str] = frozenset()
    ) -> Float[Tensor, "sequences runs width"]:
        """The states after some sequences, in two runs, with a given layout.

        The packed layout is that of edits at the second token, which places this token behind its successors. A model
        that adds its own causal mask then fails the comparison. To try the cache, the first token counts as frozen.
        """
        cues, directions = [1] * len(sequences), [0] * len(sequences)
        tree = PrefixTree.build(sequences, cues, directions, None if how == "rows" else "single")
        (part,) = parts(tree, 10**6, shared=False)
        if how == "rows":
            layout = rows(tree, part, (), self._device)
        else:
            layout = packed(tree, part, (), self._device, cached=how == "cached")
        past = None if layout.before is None else self.past(layout.before)
        states = self.states(layout, past, _Nothing(sites), {})
        return states[layout.live_rows.argsort()][torch.as_tensor(tree.live_row[tree.leaf])]


class _Nothing:
    """An edit of two runs that changes nothing."""

    runs = 2

    def __init__(self, sites: frozenset[str]) -> None:
        self.sites = sites

    def __call__(self, site: str, spans: Sequence[Span], h: Tensor) -> Tensor:
        return h


def _difference(states: Float[Tensor, "*rows width"], expected: Float[Tensor, "*whole width"]) -> float:
    """The largest relative difference of two states."""
    norms = torch.linalg.vector_norm((states - expected).float(), dim=-1)
    return float((norms / torch.linalg.vector_norm(expected.float(), dim=-1)).max())


def _repeated(x: Tensor, runs: int) -> Tensor:
    """The same rows for every run, run by run."""
    return x if runs == 1 else x.repeat(runs, *[1] * (x.ndim - 1))


def _passing_on(outputs: int) -> Any:
    def forward(*args: Any, **kwargs: Any) -> Any:
        h = first_input(args, kwargs)
        return (h, *[None] * (outputs - 1)) if outputs else h

    return forward


def _feed(block: nn.Module, h: Tensor) -> Any:
    """Replace the input of a block. Returns a function that undoes it."""

    def feed(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return with_first_input(h, args, kwargs)

    return block.register_forward_pre_hook(feed, with_kwargs=True).remove


def _cache(past: Past | None, runs: int) -> Any:
    from transformers import DynamicCache

    if past is None:
        return DynamicCache()
    return DynamicCache([(k.expand(runs, -1, -1, -1), v.expand(runs, -1, -1, -1)) for k, v in past])
