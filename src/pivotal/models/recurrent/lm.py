"""Word-level LSTM, GRU and plain RNN language models, unrolled so that an edit propagates.

Hooks on a fused `nn.LSTM` see the whole output of a layer at once: a change there does not reach the next step. Here
the network runs level by level over the PrefixTree, and edits apply where a state is computed: layer 2 of the same step
and every later step see the edited state. Cell states are never edited.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pivotal.errors import PivotalError
from pivotal.files import disk
from pivotal.models.base import Encoding, LanguageModel
from pivotal.models.edits import Edit, sites_of
from pivotal.models.gather import distinct_rows
from pivotal.models.reading import Applied
from pivotal.models.recurrent.cells import CELLS, Incoming
from pivotal.models.recurrent.modules import weights_of
from pivotal.models.recurrent.reading import LayerState, RecurrentReading
from pivotal.models.recurrent.weights import check_parts, fingerprint_of
from pivotal.models.shuffle import shuffle_rows
from pivotal.models.tree import Level, PrefixTree, Span
from pivotal.models.words import WordVocabulary
from pivotal.units import Site, Unit


@dataclass(frozen=True, slots=True)
class PreparedTree:
    levels: list[Level]
    token_rows: list[Tensor]
    table: Float[Tensor, "tokens gates"] | None
    """The first layer's gates from each distinct token. No edit changes them. None: every pass computes them."""
    frozen: list[list[LayerState]]
    """The clean states of each level's frozen nodes, layer by layer. Entry 0 is the root."""
    inputs: dict[int, list[Tensor]] = field(default_factory=dict)
    """The inputs of the first edited layer at each level's live nodes, kept from its first use: what lies below that
    layer is the same for every mask."""


@dataclass(frozen=True, slots=True)
class Layer:
    """Weights multiplied by the cell's scale. `bias` is added to the input, `recurrent_bias` to the state."""

    input: Float[Tensor, "gates input"]
    recurrent: Float[Tensor, "gates hidden"]
    bias: Float[Tensor, " gates"] | None
    recurrent_bias: Float[Tensor, " gates"] | None


class RecurrentLM(LanguageModel):
    """A word-level recurrent language model: embedding, layers of one cell, linear decoder."""

    def __init__(
        self,
        name: str,
        *,
        cell: str,
        words: Sequence[str],
        weights: dict[str, Tensor],
        priming: str = "<eos>",
        unk: str = "<unk>",
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        fingerprint: str | None = None,
    ) -> None:
        """`weights` has the tensors of `nn.LSTM`, `nn.GRU` or `nn.RNN` with the prefix `rnn.`, and `encoder.weight`,
        `decoder.weight`, `decoder.bias`. Every sentence starts from the state after the `priming` text."""
        check_parts(cell, words, weights)
        self.name = name
        self.device = torch.device(device)
        self._vocabulary = WordVocabulary(words, unk)
        self.words = self._vocabulary.words
        self.unk = unk
        self._source: tuple[str, dict[str, Tensor]] | None = (cell, dict(weights))
        self._cell = CELLS[cell]
        self._fingerprint = fingerprint or fingerprint_of(weights, self.words)
        self._fingerprint += (
            f"+{hashlib.sha256(priming.encode()).hexdigest()[:4]}" if priming != "<eos>" else ""
        )
        self.dtype = dtype
        weights = {key: tensor.to(self.device, dtype) for key, tensor in weights.items()}
        self._encoder = weights["encoder.weight"]
        self._decoder = weights["decoder.weight"]
        self._decoder_bias = weights.get("decoder.bias", self._decoder.new_zeros(len(self._decoder)))
        self._layers: list[Layer] = []
        while f"rnn.weight_ih_l{len(self._layers)}" in weights:
            self._layers.append(self._layer(weights, len(self._layers)))
        self.hidden = self._layers[0].recurrent.shape[1]
        self.priming = priming
        self._root = self._run_priming(priming)

    @staticmethod
    def from_modules(
        name: str,
        encoder: nn.Embedding,
        rnn: nn.LSTM | nn.GRU | nn.RNN,
        decoder: nn.Linear,
        words: Sequence[str],
        *,
        priming: str = "<eos>",
        unk: str = "<unk>",
    ) -> RecurrentLM:
        """Make a model from three torch modules and the words in the order of their ids."""
        cell, weights = weights_of(encoder, rnn, decoder)
        return RecurrentLM(name, cell=cell, words=words, weights=weights, priming=priming, unk=unk)

    def save(self, folder: str | Path, summary: str = "", *, replace: bool = False) -> Path:
        """Write the model to a folder, which `load_model` and every command open by its path.

        Search for units in the loaded model: its fingerprint is that of the files. With `replace`, the folder may hold
        another model.
        """
        from pivotal.models.recurrent.folder import save_folder

        if self._source is None:
            raise PivotalError(
                f"{self.name} is made for controls and is not saved. Save the model that it is made of."
            )
        cell, weights = self._source
        card = {
            "name": Path(folder).name,
            "summary": summary or f"{cell.upper()} of {len(self.words):,} words",
        }
        with disk(Path(folder)):
            return save_folder(
                Path(folder),
                cell=cell,
                words=self.words,
                weights=weights,
                card=card,
                priming=self.priming,
                unk=self.unk,
                replace=replace,
            )

    def _layer(self, weights: dict[str, Tensor], level: int) -> Layer:
        recurrent = weights[f"rnn.weight_hh_l{level}"]
        scale = self._cell.scale(recurrent.shape[1]).to(recurrent)
        zeros = torch.zeros_like(scale)
        bias = weights.get(f"rnn.bias_ih_l{level}", zeros) * scale
        recurrent_bias = weights.get(f"rnn.bias_hh_l{level}", zeros) * scale
        if self._cell.one_bias:
            # One bias, added where there are fewest rows: to the tokens in the first layer, to the parents elsewhere.
            bias = recurrent_bias = bias + recurrent_bias
        return Layer(
            input=weights[f"rnn.weight_ih_l{level}"] * scale[:, None],
            recurrent=recurrent * scale[:, None],
            bias=None if self._cell.one_bias and level > 0 else bias,
            recurrent_bias=None if self._cell.one_bias and level == 0 else recurrent_bias,
        )

    # -- words --------------------------------------------------------------------------------------------------

    @property
    def sites(self) -> tuple[Site, ...]:
        return tuple(
            Site(f"hidden.{i}", self.hidden, first=1 + i * self.hidden, bounds=(-1.0, 1.0))
            for i in range(len(self._layers))
        )

    @property
    def vocabulary_size(self) -> int:
        return len(self.words)

    def fingerprint(self) -> str:
        return self._fingerprint

    def encode(self, text: str) -> Encoding:
        return self._vocabulary.encode(text)

    def tokens_of(self, word: str) -> tuple[int, ...]:
        return self._vocabulary.tokens_of(word)

    def word_ends(self) -> tuple[int, ...]:
        return self._vocabulary.ends()

    @property
    def unknown_word(self) -> str | None:
        return self._vocabulary.unk

    def word(self, token: int) -> str:
        return self.words[token]

    def unspeakable(self) -> list[int]:
        return self._vocabulary.special()

    def writes(self, units: Sequence[Unit]) -> Float[Tensor, "units width"] | None:
        """A unit of the last layer is read by the decoder. The units of other layers have no direct path."""
        last = self.layers[-1].name
        written = torch.zeros(len(units), self.hidden, device=self.device)
        for i, unit in enumerate(units):
            if unit.site == last:
                written[i, unit.index] = 1.0
        return written

    @torch.no_grad()
    def shuffled(self, seed: int = 0) -> RecurrentLM:
        noise = torch.Generator().manual_seed(seed)
        made = copy.copy(self)
        made.name = f"{self.name} with shuffled weights"
        made._source = None
        made._fingerprint = f"{self._fingerprint}-shuffled-{seed}"
        made._encoder = shuffle_rows(self._encoder, noise)
        made._decoder = shuffle_rows(self._decoder, noise)
        made._layers = [
            replace(
                layer,
                input=shuffle_rows(layer.input, noise),
                recurrent=shuffle_rows(layer.recurrent, noise),
            )
            for layer in self._layers
        ]
        made._root = made._run_priming(self.priming)
        return made

    # -- computation --------------------------------------------------------------------------------------------

    @torch.no_grad()
    def _run_priming(self, text: str) -> list[LayerState]:
        self._root = self._zero_state(1)
        try:
            ids = self.encode(text).ids
        except PivotalError as error:
            raise PivotalError(
                f"The priming text must be in the model's words, but {text!r} is not ({error}). Give another."
            ) from None
        if not ids:
            return self._root
        chain = PrefixTree.build([ids])
        return self._step_through(self._prepare(chain, [self._root]), None)[-1]

    def _zero_state(self, rows: int) -> list[LayerState]:
        zero = self._encoder.new_zeros(rows, 1, self.hidden)
        return [LayerState(zero, zero if self._cell.has_memory else None) for _ in self._layers]

    @torch.no_grad()
    def read(
        self, ids: Int[Tensor, "steps texts"], states: list[LayerState] | None = None
    ) -> tuple[Float[Tensor, "steps texts hidden"], list[LayerState]]:
        """The last states along several long texts, and the states to continue from. They start from zero states."""
        tops = []
        states = states or self._zero_state(ids.shape[1])
        for gates in self._first_gates(ids):
            states = self._advance(gates, states)
            tops.append(states[-1].h[:, 0])
        return torch.stack(tops), states

    @torch.no_grad()
    def reading(self, prompt: Sequence[int], texts: int, applied: Applied) -> RecurrentReading:
        last = self._step_through(self.prepare(applied.tree([prompt])), applied.edit)[-1]

        @torch.no_grad()
        def advance(tokens: Int[Tensor, " texts"], states: list[LayerState]) -> list[LayerState]:
            spans = applied.later(len(tokens))
            return self._advance(self._first_gates(tokens), states, applied.edit, spans)

        return RecurrentReading([state.repeated(texts) for state in last], advance)

    def _first_gates(self, ids: Int[Tensor, "*texts"]) -> Float[Tensor, "*texts gates"]:
        """The first layer's gates from some tokens."""
        return torch.nn.functional.linear(self._encoder[ids], self._layers[0].input, self._layers[0].bias)

    def _advance(
        self,
        gates: Float[Tensor, "texts gates"],
        states: list[LayerState],
        edit: Edit | None = None,
        spans: tuple[Span, ...] = (),
    ) -> list[LayerState]:
        """The states of some texts after one more token of each, from the first layer's gates of these tokens."""
        same = torch.arange(len(gates), device=self.device)
        level = Level(0, 0, len(same), token=same, parent=same, source=same, up=same, spans=spans)
        return self._through_layers(gates[:, None], states, level, edit, None)

    @torch.no_grad()
    def prepare(self, tree: PrefixTree) -> PreparedTree:
        frozen: list[list[LayerState]] = [self._root]
        if not tree.live[1:].all():
            part = tree.frozen_part()
            frozen = self._step_through(self._prepare(part, [self._root]), None)
        return self._prepare(tree, frozen)

    def _prepare(self, tree: PrefixTree, frozen: list[list[LayerState]]) -> PreparedTree:
        levels = tree.levels(self.device)
        tokens, rows = torch.unique(torch.cat([lv.token for lv in levels]), return_inverse=True)
        table = self._first_gates(tokens)
        token_rows = list(rows.split([len(lv.token) for lv in levels]))
        return PreparedTree(levels, token_rows, table, frozen)

    def fixed(self, prepared: PreparedTree, runs: int) -> PreparedTree:
        """Without the table, whose length is the number of distinct tokens."""
        return replace(prepared, table=None, inputs={})

    def states(self, prepared: PreparedTree, edit: Edit | None = None) -> Float[Tensor, "live runs hidden"]:
        levels = self._step_through(prepared, edit)[1:]
        tops = []
        for level, state in zip(prepared.levels, levels, strict=True):
            if level.stop > level.live:
                tops.append(state[-1].h[level.live - level.start :])
        runs = max(top.shape[1] for top in tops)
        return torch.cat([top.expand(-1, runs, -1) for top in tops])

    def _step_through(
        self, prepared: PreparedTree, edit: Edit | None, upto: int | None = None
    ) -> list[list[LayerState]]:
        """The states of every level, with frozen rows first. Entry 0 is the root. Layers below the first edited one are
        not computed, and neither are those from `upto` on."""
        first = self._first_edited(edit)
        inputs = self._inputs(prepared, first) if first else None
        states = [prepared.frozen[0]]
        for depth, (level, rows) in enumerate(
            zip(prepared.levels, prepared.token_rows, strict=True), start=1
        ):
            frozen = prepared.frozen[depth] if level.live > level.start else None
            if level.stop == level.live:
                assert frozen is not None
                states.append(frozen)
                continue
            if inputs is None:
                gates = self._first_gates(level.token) if prepared.table is None else prepared.table[rows]
                gates = gates[:, None]
            else:
                layer = self._layers[first]
                gates = torch.nn.functional.linear(inputs[depth - 1], layer.input, layer.bias)
            states.append(self._through_layers(gates, states[-1], level, edit, frozen, slice(first, upto)))
        return states

    def _first_edited(self, edit: Edit | None) -> int:
        """The first layer that an edit changes; 0 if there is none."""
        sites = None if edit is None else sites_of(edit)
        edited = [i for i, site in enumerate(self.sites) if sites is not None and site.name in sites]
        return min(edited, default=0)

    @torch.no_grad()
    def _inputs(self, prepared: PreparedTree, layer: int) -> list[Tensor]:
        """The inputs of a layer at the live nodes of each level, in the untouched model."""
        if layer not in prepared.inputs:
            states = self._step_through(prepared, None, upto=layer)[1:]
            prepared.inputs[layer] = [
                state[layer - 1].h[level.live - level.start :]
                for level, state in zip(prepared.levels, states, strict=True)
            ]
        return prepared.inputs[layer]

    def _through_layers(
        self,
        gates: Float[Tensor, "live 1 gates"],
        above: list[LayerState],
        level: Level,
        edit: Edit | None,
        frozen: list[LayerState] | None,
        layers: slice = slice(None),
    ) -> list[LayerState]:
        """The states of a level, from the states of the level above and the input gates of the first of `layers`.
        Other layers keep the states of the level above, which nothing reads."""
        new, h, weight = list(above), gates, None
        for i, layer in list(enumerate(self._layers))[layers]:
            h, c = self._step(layer, weight, h, above[i], level)
            if edit is not None:
                h = edit(f"hidden.{i}", level.spans, h)
            new[i] = LayerState(h, c) if frozen is None else _stack(frozen[i], h, c)
            weight = self._layers[i + 1].input if i + 1 < len(self._layers) else None
        return new

    def _step(
        self, layer: Layer, weight: Tensor | None, x: Tensor, above: LayerState, level: Level
    ) -> tuple[Tensor, Tensor | None]:
        """One step of a layer. The product with the recurrent matrix is computed once per parent."""
        parents = distinct_rows(above.h, level.source)
        recurrent = torch.nn.functional.linear(parents, layer.recurrent, layer.recurrent_bias)
        carry = above.h if above.c is None else above.c
        return self._cell.step(Incoming(x, weight, layer.bias, recurrent, level.up, carry, level.parent))

    def readout(
        self, states: Float[Tensor, "*rows hidden"], ids: Int[Tensor, " words"] | None = None
    ) -> Float[Tensor, "*rows words"]:
        """In float32 or better: two logits decide a flip, and half precision rounds them to sixteenths."""
        wide = torch.promote_types(self.dtype, torch.float32)
        if ids is None:
            return torch.nn.functional.linear(states, self._decoder, self._decoder_bias).to(wide)
        return torch.nn.functional.linear(
            states.to(wide), self._decoder[ids].to(wide), self._decoder_bias[ids].to(wide)
        )

    def mean_row(self, p: Float[Tensor, "nodes vocabulary"]) -> Float[Tensor, "nodes hidden"] | None:
        return p @ self._decoder if self.dtype.itemsize >= 4 else None


def _stack(frozen: LayerState, h: Tensor, c: Tensor | None) -> LayerState:
    runs = h.shape[1]
    h = torch.cat([frozen.h.expand(-1, runs, -1), h])
    if c is None or frozen.c is None:
        return LayerState(h, None)
    runs = c.shape[1]
    return LayerState(h, torch.cat([frozen.c.expand(-1, runs, -1), c]))
