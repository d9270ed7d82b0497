"""Causal language models of `transformers` with the interface of a LanguageModel."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pivotal.errors import PivotalError
from pivotal.models.chunks import FEWEST, Chunk, ChunkedLM, Division, PreparedChunks
from pivotal.models.edits import Edit
from pivotal.models.hooks import Tap, check_not_lent, first_of, hooked, lock_of
from pivotal.models.intervened import Applied, Reading
from pivotal.models.layout import Layout, packed, parts, rows
from pivotal.models.tensors import checksum, wide
from pivotal.models.transformers.anatomy import Head, examine, matrix_of, probe_tokens
from pivotal.models.transformers.reading import TransformersReading, Where, attached
from pivotal.models.transformers.tokens import Tokens, digest_of_words
from pivotal.models.transformers.trunk import KEPT, Past, Trunk
from pivotal.models.tree import PrefixTree
from pivotal.units import Unit

_LONGEST_ROW, _LONGEST_ROW_CPU = 512, 256
"""The most nodes of a packed row. Attention computes all pairs of nodes, most of which are masked. On a CPU that is a
tenth of the work or more, so its rows are shorter; a GPU is faster with fewer rows."""
_NODES, _KEPT, _PER_COORDINATE = 4096, 5 * 10**9, 12
"""The most nodes to compute at once; and on a CPU the most bytes that a backward pass keeps of them, which are about
three float32 numbers for each coordinate of a site (2.9 were measured in SmolLM2-135M)."""
_INPUTS = 2**27
"""The most bytes of the inputs of blocks that are kept of a pass of the untouched model, 134 MB."""
_WINDOW = re.compile(r"(window|window_size|chunk_size)$")
"""The settings that limit how far a layer sees. `sliding_window_pattern` and `max_window_layers` count layers."""


class TransformersLM(ChunkedLM):
    """Any causal language model of `transformers`, with its tokenizer. The weights are frozen.

    Several threads can use one model. Their passes take turns, because edits are hooks on shared modules.
    """

    vocabulary: Tokens
    network: Any
    """The model of `transformers`. Its weights are frozen."""
    taps: tuple[Tap, ...]
    """The module and the side of it where each site is computed, in the order of computation."""

    def __init__(
        self,
        name: str,
        model: Any,
        tokenizer: Any,
        *,
        priming: str | None = None,
        fingerprint: str | None = None,
        batch_nodes: int | None = None,
    ) -> None:
        """`priming` is the text that the model reads before every sentence. The default is what the tokenizer adds, or
        else the token that its training texts began with; "" adds nothing. `fingerprint` is a digest of the weights, if
        it is known. `batch_nodes` is the most nodes, times runs, to compute at once, and bounds memory. The default
        is 4096, or fewer for a large model on a CPU, which has no error to recover from when memory runs out."""
        self.name, self.lock = name, lock_of(model)
        self.network = model.eval().requires_grad_(False)
        _check_finite(name, model)
        embedding = model.get_input_embeddings().weight
        self.device, self.dtype = _first_device(model), embedding.dtype
        size = int(embedding.shape[0])
        self.vocabulary = Tokens(tokenizer, size, priming)
        own = self.vocabulary.priming == self.vocabulary.added
        self._read_first = None if own else self.vocabulary.priming_text()
        self._fingerprint = self._known_by(fingerprint or checksum(model))
        self._fingerprints = {self._fingerprint}
        with self.lock:
            anatomy = examine(model, size, self.device)
            self._head = Head.of(anatomy, model.config)
            self.vocabulary_size, self._width = len(self._head.weight), anatomy.states.shape[-1]
            self._trunk = Trunk(model, anatomy, size, self.device)
        self._primed: Past | None = None
        self.taps, self._blocks = anatomy.taps, anatomy.blocks
        self.sites = tuple(tap.site for tap in anatomy.taps)
        kept = _PER_COORDINATE * sum(site.coordinates for site in self.sites)
        fitting = _KEPT // kept if self.device.type == "cpu" else _NODES
        self.batch_nodes = batch_nodes or max(FEWEST, min(_NODES, fitting))
        self._window = _window(model.config)
        limit = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        self.longest = None if limit is None else limit - len(self.vocabulary.priming)
        if self.longest is not None and self.longest < 1:
            raise PivotalError(
                f"{name} has {limit} positions, but its priming text takes {len(self.vocabulary.priming)}. Shorten it."
            )

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of `transformers`."""
        return self.vocabulary.tokenizer

    def fingerprint(self) -> str:
        return self._fingerprint

    def recognise(self, fingerprint: str) -> None:
        if fingerprint not in self._fingerprints:
            self._fingerprints.add(self._known_by(checksum(self.network)))
        if fingerprint in self._fingerprints:
            self._fingerprint = fingerprint

    def _known_by(self, weights: str) -> str:
        words, priming = digest_of_words(self.tokenizer), self._read_first
        digest = hashlib.sha256(f"{weights} {words}".encode()).hexdigest()[:16]
        return digest if priming is None else f"{digest}+{hashlib.sha256(priming.encode()).hexdigest()[:4]}"

    def describe(self) -> str:
        """One line about how this model reads sentences."""
        bos = self.vocabulary.priming_text()
        reads = f"reads {bos} before every sentence" if bos else "reads nothing before a sentence (no BOS)"
        how = "each distinct prefix once" if self._trunk.packs else "sentence by sentence"
        return f"{self.name}: {type(self.network).__name__}, {reads}, computes {how}"

    @torch.no_grad()
    def writes(self, units: Sequence[Unit]) -> Float[Tensor, "units width"] | None:
        """A neuron of an MLP writes a column of the projection that it enters. A model that normalises the output of
        the projection has no such fixed direction."""
        taps = {tap.site.name: tap for tap in self.taps}
        width = taps[self.layers[-1].name].site.width
        written = []
        for unit in units:
            tap = taps[unit.site]
            if unit.size > 1:
                return None
            if tap.side == "output":
                column = torch.zeros(width, device=self.device)
                column[unit.index] = 1.0
            else:
                weight = matrix_of(tap.module)
                if not self._writes_straight or weight is None or weight.is_meta:
                    return None
                column = weight[:, unit.index]
            if len(column) != width:
                return None
            written.append(column.to(self.device).float())
        return torch.stack(written)

    @cached_property
    def _writes_straight(self) -> bool:
        """Whether the output of an MLP is added to the residual as it is. Tried on the last block that has one."""
        top = next((tap for tap in reversed(self.taps) if tap.site.kind == "mlp"), None)
        if top is None:
            return False
        check_not_lent(self.network)
        seen: list[Tensor] = []

        def look(_: nn.Module, __: Any, output: Any) -> None:
            seen.append(first_of(output).detach().float())

        tokens = probe_tokens(self.vocabulary.size, self.device)
        with self.lock, hooked([self._blocks[top.block].register_forward_hook(look)]):
            with hooked([top.module.register_forward_hook(lambda _, __, out: out + 1.0)]):
                self.network(input_ids=tokens, use_cache=False)
            self.network(input_ids=tokens, use_cache=False)
        more, plain = seen
        return bool(((more - plain - 1.0).abs().max() < 0.05).item())

    # -- computation --------------------------------------------------------------------------------------------

    def divide(self, tree: PrefixTree, most: int) -> list[Chunk]:
        """One packed row for each part, or several rows if the model does not support packed rows."""
        trunk, priming = self._trunk, self.vocabulary.priming
        self.check_length(int(tree.depth.max(initial=0)))
        pack = self.longest_chunk(tree) is not None
        chunks = []
        for part in parts(tree, most, shared=pack):
            if pack:
                layout = packed(tree, part, priming, self.device, cached=trunk.caches)
            else:
                layout = rows(tree, part, priming, self.device)
            chunks.append(Chunk(layout, None if layout.before is None else self._past(layout.before)))
        return chunks

    def _past(self, before: Layout) -> Past:
        """The keys and values of what stands before the first edit. Mostly that is the priming, computed once."""
        if before.places > len(self.vocabulary.priming):
            return self._trunk.past(before)
        self._primed = self._primed or self._trunk.past(before)
        return self._primed

    def longest_chunk(self, tree: PrefixTree) -> int | None:
        """The most nodes of a packed row; None if the tree cannot be packed."""
        deepest = int(tree.depth.max(initial=0)) + len(self.vocabulary.priming)
        if not self._trunk.packs or deepest > self._window:
            return None
        return _LONGEST_ROW_CPU if self.device.type == "cpu" else _LONGEST_ROW

    def fixed(self, prepared: PreparedChunks, runs: int) -> PreparedChunks | None:
        """Only a tree that is one packed row has a fixed shape. A recording is of one device."""
        division = self.division(prepared, runs)
        spread = len({weight.device for weight in self.network.parameters()}) > 1
        if spread or len(division.chunks) > 1 or division.chunks[0].layout.sees is None:
            return None
        (chunk,) = division.chunks
        return PreparedChunks(None, Division(0, [Chunk(chunk.layout, chunk.past)], division.order))

    def run_chunk(self, chunk: Chunk, edit: Edit | None) -> Float[Tensor, "nodes runs width"]:
        return wide(self._trunk.states(chunk.layout, chunk.past, edit, chunk.entries))

    def untouched(self, tree: PrefixTree) -> tuple[Float[Tensor, "live width"], dict[int, Tensor]]:
        """The inputs of a few blocks at equal distances are kept, as far as they fit into memory."""
        prepared, blocks = self.prepare(tree), len(self._blocks)
        useful = self._trunk.skips and self._trunk.caches
        apart = -(-blocks // (1 + min(KEPT * useful, _INPUTS // (4 * tree.n_live * self._width))))
        division, wanted = self.division(prepared, 1), range(apart, blocks, apart)
        for chunk in division.chunks:
            chunk.entries.update(dict.fromkeys(wanted, torch.empty(0)))
        states = self.states(prepared)[:, 0]

        def of(block: int) -> Tensor:
            found = [chunk.layout.pick(chunk.entries[block].to(self.device), 1) for chunk in division.chunks]
            return torch.cat(found)[division.order, 0]

        # Where memory ran out, the tree was divided anew.
        return states, {block: of(block) for block in wanted if prepared.division is division}

    def reading(self, prompt: Sequence[int], texts: int, applied: Applied) -> Reading:
        with self.lock:
            if not self._trunk.continues:
                return super().reading(prompt, texts, applied)
        return TransformersReading(
            self._trunk, self.lock, prompt, self.vocabulary.priming, texts, applied, self.device
        )

    def attached(
        self, edit: Edit, direction: int, cues: Sequence[int] | None
    ) -> AbstractContextManager[nn.Module]:
        where, taps = Where(self.vocabulary.priming, cues), self._trunk.taps_of(edit)
        return attached(self.network, taps, edit, direction, where, self.device)

    def readout(
        self, states: Float[Tensor, "*rows width"], ids: Int[Tensor, " words"] | None = None
    ) -> Float[Tensor, "*rows words"]:
        return self._head(states, ids)

    def mean_row(self, p: Float[Tensor, "nodes vocabulary"]) -> Float[Tensor, "nodes width"] | None:
        return self._head.mean_row(p)


def _check_finite(name: str, model: Any) -> None:
    """Raise PivotalError if a weight is NaN or infinite, since everything computed from it would be, too."""
    for key, weight in model.named_parameters():
        # A sum is finite only if every number is, and takes a tenth of the time.
        known = weight.device.type == "meta" or not weight.is_floating_point() or weight.sum().isfinite()
        if not bool(known or weight.isfinite().all()):
            raise PivotalError(
                f"Some weights in {key} of {name} are not finite. Download it again, or load it in a wider --dtype."
            )


def _first_device(model: Any) -> torch.device:
    """The device of the embedding. For a model that is spread over several devices, the first device that computes."""
    device: torch.device = model.get_input_embeddings().weight.device
    if device.type != "meta":
        return device
    given = getattr(model, "hf_device_map", {}).values()
    places = [torch.device(d) for d in given if d not in ("disk", "meta")]
    return next((d for d in places if d.type != "cpu"), torch.device("cpu"))


def _window(config: Any) -> int:
    """The length up to which every layer sees the whole sentence. Beyond it, our attention mask would be wrong."""
    settings = config.get_text_config().to_dict()
    sizes = [
        size for name, size in settings.items() if _WINDOW.search(name) and type(size) is int and size > 1
    ]
    return min(sizes, default=2**31)
