"""A causal language model of `transformers` behind the interface that pivotal knows."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.models.base import Encoding
from pivotal.models.checksum import checksum
from pivotal.models.chunks import ChunkedLM, Chunks
from pivotal.models.edits import Edit
from pivotal.models.hooks import lock_of
from pivotal.models.layout import Layout, packed, parts, rows
from pivotal.models.transformers.anatomy import examine, probe_tokens
from pivotal.models.transformers.head import Head
from pivotal.models.transformers.positions import positions_of
from pivotal.models.transformers.tokens import Tokens, digest_of_words
from pivotal.models.transformers.trunk import Past, Trunk
from pivotal.models.tree import PrefixTree
from pivotal.units import Site, UnitSpace

_LONGEST_ROW, _LONGEST_ROW_CPU = 512, 256
"""Nodes of a packed row: attention looks at all pairs of them, most of which the mask then hides. To a CPU that is a
tenth of the work and more; a GPU would rather have fewer rows."""
_WINDOW = re.compile(r"(window|window_size|chunk_size)$")
"""Settings that say how far a layer sees; `sliding_window_pattern` and `max_window_layers` count layers."""
_EXPERTS = re.compile(r"(num|local|routed)_experts$")


@dataclass
class _Chunk:
    layout: Layout
    past: Past | None
    entries: dict[int, Tensor] = field(default_factory=dict)


class TransformersLM(ChunkedLM):
    """Any causal language model of `transformers`, with its tokenizer. Weights are frozen."""

    def __init__(
        self,
        name: str,
        model: Any,
        tokenizer: Any,
        *,
        priming: str | None = None,
        fingerprint: str | None = None,
        words: str | None = None,
        batch_nodes: int = 4096,
    ) -> None:
        """`priming` is the text read before every sentence: by default what the tokenizer puts there itself, BOS or
        nothing; give "" for nothing. `fingerprint` and `words` are digests of the weights and of the vocabulary, for
        whoever knows them. `batch_nodes` bounds memory: so many nodes, times runs, are computed at once."""
        self.name = name
        self._chunks = Chunks(batch_nodes, self._divide, self._run, lock_of(model))
        self._model = model.eval().requires_grad_(False)
        self.device = _first_device(model)
        self._vocabulary = int(model.get_input_embeddings().weight.shape[0])
        self._tokens = Tokens(tokenizer, self._vocabulary, priming)
        if priming is not None and self._tokens.priming == Tokens(tokenizer, self._vocabulary, None).priming:
            priming = None  # its own, said in so many words
        self._fingerprint = _fingerprint(
            fingerprint or checksum(model), words or digest_of_words(tokenizer), priming
        )
        with lock_of(model):
            anatomy = examine(model, self._vocabulary, self.device)
            self._head = Head.of(anatomy, model.config)
            self._trunk = Trunk(model, anatomy, self._vocabulary, self.device)
            limit = positions_of(model, int(probe_tokens(self._vocabulary, self.device)[0, 0]), self.device)
        self._sites = tuple(tap.site for tap in anatomy.taps)
        self._window = _window(model.config)
        self.longest = None if limit is None else limit - len(self._tokens.priming)
        if self.longest is not None and self.longest < 1:
            raise PivotalError(
                f"The priming text must leave room for a sentence, but {name} has positions for {limit} tokens, and it "
                f"has {len(self._tokens.priming)}. Give a shorter one."
            )

    # -- words --------------------------------------------------------------------------------------------------

    @property
    def sites(self) -> tuple[Site, ...]:
        return self._sites

    def unit_space(self, sites: str = "all") -> UnitSpace:
        try:
            return super().unit_space(sites)
        except PivotalError as error:
            none = all(site.kind != "mlp" for site in self._sites)
            if "mlp" in sites and none and _has_experts(self._model.config):
                raise PivotalError(
                    f"{error} {self.name} is a mixture of experts, and those are no sites: a token goes through a few "
                    "of them only."
                ) from None
            raise

    @property
    def vocabulary_size(self) -> int:
        return len(self._head.weight)

    @property
    def readable(self) -> int:
        return self._vocabulary

    def fingerprint(self) -> str:
        return self._fingerprint

    def describe(self) -> str:
        """How it reads sentences, in a line."""
        before = self._tokens.priming_text()
        reads = (
            f"reads {before} before every sentence" if before else "reads nothing before a sentence (no BOS)"
        )
        how = "each distinct prefix once" if self._trunk.packs else "sentence by sentence"
        return f"{self.name}: {type(self._model).__name__}, {reads}, computes {how}"

    def encode(self, text: str) -> Encoding:
        return self._tokens.encode(text)

    def single_token(self, word: str) -> int:
        return self._tokens.single_token(word)

    def word(self, token: int) -> str:
        return self._tokens.text(token)

    def join(self, words: Sequence[str]) -> str:
        return "".join(words)

    def continued(self, prompt: str, tokens: Sequence[int]) -> str:
        return self._tokens.continued(prompt, tokens)

    def unspeakable(self) -> list[int]:
        return self._tokens.special()

    # -- computation --------------------------------------------------------------------------------------------

    def _divide(self, tree: PrefixTree, most: int) -> list[_Chunk]:
        """One packed row for each part or, where the model cannot do that, several rows."""
        trunk, priming = self._trunk, self._tokens.priming
        deepest = int(tree.depth.max(initial=0))
        self.check_length(deepest)
        pack = trunk.packs and deepest + len(priming) <= self._window
        longest = _LONGEST_ROW_CPU if self.device.type == "cpu" else _LONGEST_ROW
        chunks = []
        for part in parts(tree, min(most, longest) if pack else most, shared=pack):
            if pack:
                layout = packed(tree, part, priming, self.device, cached=trunk.caches)
            else:
                layout = rows(tree, part, priming, self.device)
            chunks.append(_Chunk(layout, None if layout.before is None else trunk.past(layout.before)))
        return chunks

    def _run(self, chunk: _Chunk, edit: Edit | None) -> Float[Tensor, "nodes runs width"]:
        states = self._trunk.states(chunk.layout, chunk.past, edit, chunk.entries)
        return states.float() if states.dtype.itemsize < 4 else states

    def readout(
        self, states: Float[Tensor, "*rows width"], ids: Int[Tensor, " words"] | None = None
    ) -> Float[Tensor, "*rows words"]:
        return self._head(states, ids)


def _first_device(model: Any) -> torch.device:
    """Where the tokens go in; of a model that is spread over several devices, the first that computes."""
    device: torch.device = model.get_input_embeddings().weight.device
    if device.type != "meta":
        return device
    places = [torch.device(d) for d in model.hf_device_map.values() if d not in ("disk", "meta")]
    return next((d for d in places if d.type != "cpu"), torch.device("cpu"))


def _has_experts(config: Any) -> bool:
    return any(size > 1 for size in _sizes(config, _EXPERTS))


def _sizes(config: Any, names: re.Pattern[str]) -> list[int]:
    """The whole numbers of a configuration whose names end so."""
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    return [
        value
        for key, value in text.to_dict().items()
        if names.search(key) and isinstance(value, int) and not isinstance(value, bool)
    ]


def _window(config: Any) -> int:
    """The depth up to which every layer sees all of a sentence: beyond it a mask of ours would show too much."""
    sizes = _sizes(config, _WINDOW)
    return min((size for size in sizes if size > 1), default=2**31)


def _fingerprint(weights: str, words: str, priming: str | None) -> str:
    digest = hashlib.sha256(f"{weights} {words}".encode()).hexdigest()[:16]
    return digest if priming is None else f"{digest}+{hashlib.sha256(priming.encode()).hexdigest()[:4]}"
