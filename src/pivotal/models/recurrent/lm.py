"""Word-level LSTM, GRU and plain RNN language models, unrolled so that an edit propagates.

Hooks on a fused `nn.LSTM` see the whole output of a layer at once: a change there does not reach the next step. Here
the layers run level by level over the PrefixTree (`stack`), and edits apply where a state is computed: layer 2 of the
same step and every later step see the edited state. Cell states are never edited.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pivotal.models.base import LanguageModel
from pivotal.models.edits import Edit
from pivotal.models.intervened import Applied, Reading
from pivotal.models.recurrent.cells import CELLS
from pivotal.models.recurrent.stack import LayerState, PreparedTree, RecurrentStack
from pivotal.models.recurrent.weights import check_parts, dequantised, fingerprint_of, weights_of
from pivotal.models.tree import PrefixTree
from pivotal.models.vocabulary import WordVocabulary
from pivotal.units import Unit


class RecurrentLM(LanguageModel):
    """A word-level recurrent language model: embedding, layers of one cell, linear decoder."""

    dtype: torch.dtype
    vocabulary: WordVocabulary

    def __init__(
        self,
        name: str,
        *,
        cell: str,
        words: Sequence[str],
        weights: Mapping[str, Tensor],
        priming: str = "<eos>",
        unk: str = "<unk>",
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        fingerprint: str | None = None,
    ) -> None:
        """`weights` has the tensors of `nn.LSTM`, `nn.GRU` or `nn.RNN` with the prefix `rnn.`, and `encoder.weight`,
        `decoder.weight` unless it is tied, `decoder.bias`; or those of a model folder, with matrices in int8. Every
        sentence starts from the state after the `priming` text."""
        self._weights, weights = dict(weights), dequantised(weights)
        check_parts(cell, words, weights)
        self.name = name
        self.device = torch.device(device)
        self.vocabulary = WordVocabulary(words, unk, priming)
        self.words, self.vocabulary_size = self.vocabulary.words, len(words)
        self.cell, self.unk = cell, unk
        self._fingerprint = fingerprint or fingerprint_of(self._weights, self.words)
        if priming != "<eos>":
            self._fingerprint += f"+{hashlib.sha256(priming.encode()).hexdigest()[:4]}"
        self.dtype = dtype
        weights = {key: tensor.to(self.device, dtype) for key, tensor in weights.items()}
        self._stack = RecurrentStack.of(CELLS[cell], weights)
        self._decoder = weights["decoder.weight"]
        self._decoder_bias = weights.get("decoder.bias", self._decoder.new_zeros(len(self._decoder)))
        self.sites = self._stack.sites
        self.hidden = self._stack.hidden
        self.priming = priming
        self._root = self._run_priming()

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
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> RecurrentLM:
        """Make a model from three torch modules and the words in the order of their ids. By default it computes where
        the modules are and in their number format, but on a CPU in float32 at least."""
        cell, weights = weights_of(encoder, rnn, decoder)
        own = weights["decoder.weight"]
        device = own.device if device is None else torch.device(device)
        if dtype is None:
            dtype = torch.promote_types(own.dtype, torch.float32) if device.type == "cpu" else own.dtype
        how: Any = {"device": device, "dtype": dtype, "priming": priming, "unk": unk}
        return RecurrentLM(name, cell=cell, words=words, weights=weights, **how)

    def save(self, folder: str | Path, summary: str = "", *, replace: bool = False) -> Path:
        """Write the model to a folder, which `load_model` and every command open by its path.

        The saved model has the fingerprint of this one. With `replace`, the folder may hold another model.
        """
        from pivotal.models.recurrent.folder import save_folder

        summary = summary or f"{self.cell.upper()} of {len(self.words):,} words"
        return save_folder(
            Path(folder),
            cell=self.cell,
            words=self.words,
            weights=self._weights,
            card={"name": Path(folder).name, "summary": summary},
            priming=self.priming,
            unk=self.unk,
            replace=replace,
        )

    def fingerprint(self) -> str:
        return self._fingerprint

    def writes(self, units: Sequence[Unit]) -> Float[Tensor, "units width"] | None:
        """A unit of the last layer is read by the decoder. The units of other layers have no direct path."""
        last = self.layers[-1].name
        written = torch.zeros(len(units), self.hidden, device=self.device)
        for i, unit in enumerate(units):
            if unit.site == last:
                written[i, unit.index] = 1.0
        return written

    # -- computation --------------------------------------------------------------------------------------------

    @torch.no_grad()
    def _run_priming(self) -> list[LayerState]:
        """The states after the priming text, from which every sentence starts."""
        zero, ids = self._stack.zero_state(1), self.vocabulary.priming
        if not ids:
            return zero
        chain = PrefixTree.build([ids])
        return self._stack.step_through(self._stack.prepare(chain, [zero]), None)[-1]

    @torch.no_grad()
    def read(
        self, ids: Int[Tensor, "steps texts"], states: list[LayerState] | None = None
    ) -> tuple[Float[Tensor, "steps texts hidden"], list[LayerState]]:
        """The last states along several long texts, and the states to continue from. They start from zero states."""
        tops = []
        states = states or self._stack.zero_state(ids.shape[1])
        for gates in self._stack.first_gates(ids):
            states = self._stack.advance(gates, states)
            tops.append(states[-1].h[:, 0])
        return torch.stack(tops), states

    @torch.no_grad()
    def reading(self, prompt: Sequence[int], texts: int, applied: Applied) -> RecurrentReading:
        layers = self._stack.step_through(self.prepare(applied.tree([prompt])), applied.edit)[-1]
        return RecurrentReading(self._stack, [state.repeated(texts) for state in layers], applied)

    @torch.no_grad()
    def prepare(self, tree: PrefixTree) -> PreparedTree:
        frozen: list[list[LayerState]] = [self._root]
        if not tree.live[1:].all():
            part = tree.frozen_part()
            frozen = self._stack.step_through(self._stack.prepare(part, [self._root]), None)
        return self._stack.prepare(tree, frozen)

    def fixed(self, prepared: PreparedTree, runs: int) -> PreparedTree:
        """Without the table, whose length is the number of distinct tokens."""
        return replace(prepared, table=None, gates={})

    def compute(self, prepared: PreparedTree, edit: Edit | None) -> Float[Tensor, "live runs hidden"]:
        layers = self._stack.from_first_edited(edit)
        states = zip(prepared.levels, self._stack.step_through(prepared, edit, layers)[1:], strict=True)
        tops = [state[-1].h[lv.live - lv.start :] for lv, state in states if lv.stop > lv.live]
        runs = max(top.shape[1] for top in tops)
        return torch.cat([top.expand(-1, runs, -1) for top in tops])

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


class RecurrentReading(Reading):
    """Keeps h and c of every layer, which are all that the next step needs."""

    def __init__(self, stack: RecurrentStack, layers: list[LayerState], applied: Applied) -> None:
        self._stack, self._layers, self._applied = stack, layers, applied
        self.states = layers[-1].h[:, 0]

    @torch.no_grad()
    def read(self, tokens: Int[Tensor, " texts"]) -> None:
        gates, applied = self._stack.first_gates(tokens), self._applied
        self._layers = self._stack.advance(gates, self._layers, applied.edit, applied.later(len(tokens)))
        self.states = self._layers[-1].h[:, 0]
