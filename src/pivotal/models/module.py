"""Language models from any `nn.Module` that maps token ids to logits from left to right."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pivotal.errors import PivotalError, did_you_mean
from pivotal.models.chunks import Chunk, ChunkedLM
from pivotal.models.edits import Edit, runs_of, sites_of
from pivotal.models.hooks import Tap, attach, check_causal, edited, hooked, lock_of, running
from pivotal.models.layout import parts, rows
from pivotal.models.tensors import checksum, wide
from pivotal.models.transformers.anatomy import Head
from pivotal.models.transformers.tokens import Tokens, words_of
from pivotal.models.tree import PrefixTree
from pivotal.models.vocabulary import WordVocabulary, in_order
from pivotal.units import Site

_STEPS = 7
"""The length of the probe, chosen to differ from the usual widths, so that the axis of the steps can be recognised."""


class ModuleLM(ChunkedLM):
    """A language model from your own module.

    `module(ids)` maps ids of shape (rows, steps) to logits of shape (rows, steps, vocabulary). It must be causal,
    because rows are padded on the right. `sites` maps the name of each site to a module's path: the site is the output
    of that module, or its first input if `:input` follows the path. A site has the shape (rows, steps, width) or
    (rows, width, steps).
    """

    in_memory = True

    def __init__(
        self,
        name: str,
        module: nn.Module,
        words: Sequence[str] | Mapping[str, int] | Any,
        sites: Mapping[str, str],
        *,
        priming: str | None = None,
        unk: str = "<unk>",
        batch_nodes: int = 16_384,
    ) -> None:
        """`words` are the words in the order of their ids, a mapping from words to ids, or a tokenizer of transformers.
        `priming` is the text that the model reads before every sentence; the default is none."""
        self.name = name
        self._module = module.eval().requires_grad_(False)
        weight = next(module.parameters(), None)
        self.device = torch.device("cpu") if weight is None else weight.device
        self.dtype = None if weight is None else weight.dtype
        tokens = torch.arange(_STEPS, device=self.device)[None] % 2
        with lock_of(module):
            logits = self._logits(tokens)
            size = self.vocabulary_size = logits.shape[-1]
            check_causal(self._logits, tokens, logits)
            self._taps = _taps(module, sites, tokens)
            self.sites = tuple(tap.site for tap in self._taps)
            self._head = _head(module, tokens, logits)
        words = in_order(words) if isinstance(words, Mapping) else words
        self.vocabulary: WordVocabulary | Tokens
        if isinstance(words, Sequence):
            self.vocabulary = _vocabulary(words, size, priming or "", unk)
            listed: Sequence[str] = self.vocabulary.words
        else:
            self.vocabulary, listed = Tokens(words, size, priming), words_of(words)
        known = "\n".join([checksum(module), *listed, repr(priming)])
        self._fingerprint = hashlib.sha256(known.encode()).hexdigest()[:16]
        self.batch_nodes, self.lock = batch_nodes, lock_of(module)

    @torch.no_grad()
    def _logits(self, tokens: Tensor) -> Tensor:
        logits = self._module(tokens)
        if not isinstance(logits, Tensor) or logits.ndim != 3 or logits.shape[:2] != tokens.shape:
            shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise PivotalError(
                f"A module must map ids of the shape {tuple(tokens.shape)} to logits (rows, steps, vocabulary), but "
                f"{type(self._module).__name__} gave {shape}. Wrap it in a module that does."
            )
        return logits

    def fingerprint(self) -> str:
        return self._fingerprint

    # -- computation --------------------------------------------------------------------------------------------

    def divide(self, tree: PrefixTree, most: int) -> list[Chunk]:
        priming = self.vocabulary.priming
        chosen = parts(tree, most, shared=False)
        return [Chunk(rows(tree, part, priming, self.device)) for part in chosen]

    def run_chunk(self, chunk: Chunk, edit: Edit | None) -> Float[Tensor, "nodes runs width"]:
        layout = chunk.layout
        if edit is None:
            return wide(layout.pick(self._last(layout.tokens), 1))
        runs, wanted = runs_of(edit), sites_of(edit)
        taps = [tap for tap in self._taps if wanted is None or tap.site.name in wanted]
        with edited(taps, lambda site, h: layout.apply(edit, site, runs, h)):
            return wide(layout.pick(self._last(layout.tokens.repeat(runs, 1)), runs))

    def _last(self, tokens: Tensor) -> Tensor:
        """The last states: the input of the output layer, or the logits if there is no output layer."""
        caught: list[Tensor] = []

        def catch(h: Tensor) -> Tensor:
            caught.append(h)
            return h

        with nullcontext() if self._head is None else running(self._head, catch):
            logits = self._module(tokens)
        return caught[0] if caught else logits

    def readout(
        self, states: Float[Tensor, "*rows width"], ids: Int[Tensor, " words"] | None = None
    ) -> Float[Tensor, "*rows words"]:
        if self._head is None:
            return states if ids is None else states[..., ids]
        return Head(self._head.weight, self._head.bias)(states, ids)


def _taps(module: nn.Module, sites: Mapping[str, str], tokens: Tensor) -> tuple[Tap, ...]:
    """The sites in the order of computation."""
    modules = dict(module.named_modules())
    taps: list[Tap] = []

    def watch(site: str, path: str) -> Any:
        name, _, side = path.partition(":")
        if name not in modules or side not in ("", "input", "output"):
            raise PivotalError(
                f"The site {site} must be the path of a module, optionally with :input, but it is {path!r}."
                + did_you_mean(name, [other for other in modules if other])
            )
        part, side = modules[name], side or "output"
        if side == "output" and isinstance(part, nn.RNNBase):
            raise PivotalError(
                f"An edit at a site must reach the next step, but {path} ({site}) is a torch.nn.{type(part).__name__}, "
                "whose steps run inside the module. Use pivotal.models.RecurrentLM."
            )

        def see(h: Tensor) -> Tensor:
            taps.append(_tap(site, path, h, part, side))
            return h

        return attach(Tap(Site(site, 0), part, side), see)

    with hooked(watch(site, path) for site, path in sites.items()), torch.no_grad():
        module(tokens)
    runs = Counter(tap.site.name for tap in taps)
    if not sites:
        raise PivotalError("A model needs at least one site. Name one, e.g. sites={'hidden.0': 'layers.0'}.")
    for site, path in sites.items():
        if runs[site] != 1:
            raise PivotalError(f"{site} ({path}) ran {runs[site]} times. Name a module that runs once.")
    if len({(id(tap.module), tap.side) for tap in taps}) < len(taps):
        raise PivotalError(f"Sites must differ, but two of {', '.join(sites)} are the same. Name each once.")
    return tuple(taps)


def _tap(site: str, path: str, h: Any, module: nn.Module, side: str) -> Tap:
    shape = tuple(h.shape) if isinstance(h, Tensor) else ()
    if len(shape) != 3 or _STEPS not in shape[1:]:
        raise PivotalError(
            f"The site {site} must have a vector per step, (rows, steps, width) or (rows, width, steps), but for "
            f"{_STEPS} steps {path} has the shape {shape or type(h).__name__}. Name another module."
        )
    axis = 2 if shape[1] == _STEPS else 1
    return Tap(Site(site, shape[axis]), module, side, axis=axis)


@torch.no_grad()
def _head(module: nn.Module, tokens: Tensor, logits: Tensor) -> nn.Linear | None:
    """The linear layer whose output is the logits, so that `readout` can compute a few words only; None if there is
    none."""
    heads: list[nn.Linear] = []

    def see(layer: nn.Linear, _: Any, out: Tensor) -> None:
        if out.shape == logits.shape and torch.equal(out, logits):
            heads.append(layer)

    with hooked(m.register_forward_hook(see) for m in module.modules() if type(m) is nn.Linear):
        module(tokens)
    return heads[0] if heads else None


def _vocabulary(words: Sequence[str], size: int, priming: str, unk: str) -> WordVocabulary:
    if len(words) != size or len(set(words)) != size:
        raise PivotalError(f"{size} logits need {size} different words, but {len(set(words))} were given.")
    return WordVocabulary(words, unk, priming)
