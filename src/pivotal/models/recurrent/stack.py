"""The layers of a recurrent language model, run level by level over a prefix tree.

Edits apply where a state is computed: the next layer of the same step and every later step see the edited state. Layers
below the first edited one are computed once for a tree, because they are the same for every mask.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pivotal.models.edits import Edit, sites_of
from pivotal.models.recurrent.cells import Incoming, RecurrentCell
from pivotal.models.recurrent.weights import layers_of
from pivotal.models.tensors import distinct_rows
from pivotal.models.tree import Level, PrefixTree, Span
from pivotal.units import Site


@dataclass(frozen=True, slots=True)
class LayerState:
    """h and c of some nodes. The number of runs is 1 until an edit makes the runs differ."""

    h: Float[Tensor, "nodes _ hidden"]
    c: Float[Tensor, "nodes _ hidden"] | None

    def repeated(self, times: int) -> LayerState:
        """The state of one node, for several texts that continue from it."""
        c = None if self.c is None else self.c.repeat(times, 1, 1)
        return LayerState(self.h.repeat(times, 1, 1), c)


@dataclass(frozen=True, slots=True)
class PreparedTree:
    """The data that is computed once for a tree."""

    levels: list[Level]
    token_rows: list[Tensor]
    """The row of each live node's token in `table`, level by level."""
    table: Float[Tensor, "tokens gates"] | None
    """The first layer's gates from each distinct token. No edit changes them. None: every pass computes them."""
    frozen: list[list[LayerState]]
    """The clean states of each level's frozen nodes, layer by layer. Entry 0 is the root."""
    gates: dict[int, list[Tensor]] = field(default_factory=dict)
    """The gates of the first edited layer from its inputs at each level's live nodes, kept from its first use: what
    lies below that layer is the same for every mask."""


@dataclass(frozen=True, slots=True)
class Layer:
    """Weights multiplied by the cell's scale. `bias` is added to the input, `recurrent_bias` to the state."""

    input: Float[Tensor, "gates input"]
    recurrent: Float[Tensor, "gates hidden"]
    bias: Float[Tensor, " gates"] | None
    recurrent_bias: Float[Tensor, " gates"] | None


@dataclass(frozen=True)
class RecurrentStack:
    """The embedding and the layers of one cell."""

    cell: RecurrentCell
    encoder: Float[Tensor, "tokens input"]
    layers: tuple[Layer, ...]

    @staticmethod
    def of(cell: RecurrentCell, weights: Mapping[str, Tensor]) -> RecurrentStack:
        """The stack with the weights of `nn.LSTM`, `nn.GRU` or `nn.RNN`, named as in `RecurrentLM`."""
        layers = tuple(_layer(cell, weights, level) for level in range(layers_of(weights)))
        return RecurrentStack(cell, weights["encoder.weight"], layers)

    @property
    def hidden(self) -> int:
        """The width of a layer."""
        return int(self.layers[0].recurrent.shape[1])

    @property
    def sites(self) -> tuple[Site, ...]:
        """One site for each layer."""
        return tuple(Site(f"hidden.{i}", self.hidden, bounds=(-1.0, 1.0)) for i in range(len(self.layers)))

    def zero_state(self, rows: int) -> list[LayerState]:
        """States of zeros, for each layer."""
        zero = self.encoder.new_zeros(rows, 1, self.hidden)
        return [LayerState(zero, zero if self.cell.has_memory else None) for _ in self.layers]

    def first_gates(self, ids: Int[Tensor, "*texts"]) -> Float[Tensor, "*texts gates"]:
        """The first layer's gates from some tokens."""
        return torch.nn.functional.linear(self.encoder[ids], self.layers[0].input, self.layers[0].bias)

    def advance(
        self,
        gates: Float[Tensor, "texts gates"],
        states: list[LayerState],
        edit: Edit | None = None,
        spans: tuple[Span, ...] = (),
    ) -> list[LayerState]:
        """The states of some texts after one more token of each, from the first layer's gates of these tokens."""
        same = torch.arange(len(gates), device=self.encoder.device)
        level = Level(0, 0, len(same), token=same, parent=same, source=same, up=same, spans=spans)
        return self._through_layers(gates[:, None], states, level, edit, None)

    def prepare(self, tree: PrefixTree, frozen: list[list[LayerState]]) -> PreparedTree:
        """The data that is computed once for a tree. `frozen` are the states of the root and of its frozen nodes."""
        levels = tree.levels(self.encoder.device)
        tokens, rows = torch.unique(torch.cat([lv.token for lv in levels]), return_inverse=True)
        table = self.first_gates(tokens)
        token_rows = list(rows.split([len(lv.token) for lv in levels]))
        return PreparedTree(levels, token_rows, table, frozen)

    def step_through(
        self, prepared: PreparedTree, edit: Edit | None, layers: slice = slice(None)
    ) -> list[list[LayerState]]:
        """The states of some layers at every level, with frozen rows first. Entry 0 is the root. The layers below are
        those of the untouched model, and the states of layers left out mean nothing."""
        first = layers.start or 0
        kept = self._gates(prepared, first) if first else None
        states = [prepared.frozen[0]]
        for depth, (level, rows) in enumerate(
            zip(prepared.levels, prepared.token_rows, strict=True), start=1
        ):
            frozen = prepared.frozen[depth] if level.live > level.start else None
            if level.stop == level.live:
                assert frozen is not None
                states.append(frozen)
                continue
            if kept is not None:
                gates = kept[depth - 1]
            else:
                gates = self.first_gates(level.token) if prepared.table is None else prepared.table[rows]
                gates = gates[:, None]
            states.append(self._through_layers(gates, states[-1], level, edit, frozen, layers))
        return states

    def from_first_edited(self, edit: Edit | None) -> slice:
        """The layers from the first one that an edit changes; all if there is none."""
        sites = None if edit is None else sites_of(edit)
        edited = [i for i, site in enumerate(self.sites) if sites is not None and site.name in sites]
        return slice(min(edited, default=0), None)

    @torch.no_grad()
    def _gates(self, prepared: PreparedTree, layer: int) -> list[Tensor]:
        """The gates of a layer from its inputs at the live nodes of each level, in the untouched model."""
        if layer not in prepared.gates:
            states, own = self.step_through(prepared, None, slice(layer))[1:], self.layers[layer]
            prepared.gates[layer] = [
                torch.nn.functional.linear(
                    state[layer - 1].h[level.live - level.start :], own.input, own.bias
                )
                for level, state in zip(prepared.levels, states, strict=True)
            ]
        return prepared.gates[layer]

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
        for i, layer in list(enumerate(self.layers))[layers]:
            h, c = self._step(layer, weight, h, above[i], level)
            if edit is not None:
                h = edit(f"hidden.{i}", level.spans, h)
            new[i] = LayerState(h, c) if frozen is None else _stack(frozen[i], h, c)
            weight = self.layers[i + 1].input if i + 1 < len(self.layers) else None
        return new

    def _step(
        self, layer: Layer, weight: Tensor | None, x: Tensor, above: LayerState, level: Level
    ) -> tuple[Tensor, Tensor | None]:
        """One step of a layer. The product with the recurrent matrix is computed once per parent."""
        parents = distinct_rows(above.h, level.source)
        recurrent = torch.nn.functional.linear(parents, layer.recurrent, layer.recurrent_bias)
        carry = above.h if above.c is None else above.c
        return self.cell.step(Incoming(x, weight, layer.bias, recurrent, level.up, carry, level.parent))


def _layer(cell: RecurrentCell, weights: Mapping[str, Tensor], level: int) -> Layer:
    recurrent = weights[f"rnn.weight_hh_l{level}"]
    scale = cell.scale(recurrent.shape[1]).to(recurrent)
    zeros = torch.zeros_like(scale)
    bias = weights.get(f"rnn.bias_ih_l{level}", zeros) * scale
    recurrent_bias = weights.get(f"rnn.bias_hh_l{level}", zeros) * scale
    if cell.one_bias:
        # One bias, added where there are fewest rows: to the tokens in the first layer, to the parents elsewhere.
        bias = recurrent_bias = bias + recurrent_bias
    return Layer(
        input=weights[f"rnn.weight_ih_l{level}"] * scale[:, None],
        recurrent=recurrent * scale[:, None],
        bias=None if cell.one_bias and level > 0 else bias,
        recurrent_bias=None if cell.one_bias and level == 0 else recurrent_bias,
    )


def _stack(frozen: LayerState, h: Tensor, c: Tensor | None) -> LayerState:
    """The frozen states of a level, then the live ones."""
    h = torch.cat([frozen.h.expand(-1, h.shape[1], -1), h])
    if c is not None and frozen.c is not None:
        c = torch.cat([frozen.c.expand(-1, c.shape[1], -1), c])
    return LayerState(h, c)
