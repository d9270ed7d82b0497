"""The interface of every language model, whatever its architecture."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pivotal.errors import PivotalError, did_you_mean
from pivotal.models.bases.basis import Basis, check_basis, stored_bases
from pivotal.models.bases.edit import in_own_sites, own_site
from pivotal.models.edits import Edit, sites_of
from pivotal.models.intervened import Applied, IntervenedModel, NextWord, Reading, Rereading
from pivotal.models.tree import PrefixTree
from pivotal.models.vocabulary import Encoding, Vocabulary
from pivotal.records.basis import StoredBasis
from pivotal.records.intervention import Intervention, given_intervention
from pivotal.units import Site, Steps, Unit, UnitSpace, select_sites


def checked(model: Any) -> LanguageModel:
    """A model that somebody gave. Raises PivotalError if it is not one, such as its name."""
    if not isinstance(model, LanguageModel):
        raise PivotalError(f"A loaded model is needed, not {str(model)[:60]!r}. Use pivotal.load_model.")
    return model


class LanguageModel(ABC):
    """A frozen autoregressive language model whose activations can be edited.

    A subclass sets its sites and its vocabulary, computes the states of the nodes of a PrefixTree, and reads logits out
    of the states.
    """

    name: str
    device: torch.device
    dtype: torch.dtype | None = None
    """The number format that the model computes in. None if the adapter does not say."""
    batch_nodes: int | None = None
    """The most nodes, times runs, to compute at once. None for a model that has no such limit."""
    longest: int | None = None
    """The most tokens that a text may have: those that the model has positions for. None if there is no limit."""
    in_memory: bool = False
    """Whether it was made from a module in memory, so that no name loads it."""
    vocabulary: Vocabulary
    """How it reads texts as tokens."""
    vocabulary_size: int
    """The number of tokens that it predicts."""
    sites: tuple[Site, ...]
    """Every site that can be edited, in the order of computation."""
    bases: Mapping[str, Basis] = MappingProxyType({})
    """The bases of its further sites, such as `resid.12@pca`, by the names of these sites."""

    @abstractmethod
    def fingerprint(self) -> str:
        """An identifier of the weights and the vocabulary. Models with the same fingerprint are the same function."""

    def recognise(self, fingerprint: str) -> None:  # noqa: B027 - most models have one fingerprint
        """Take this fingerprint if the same weights have it in memory. A loaded model has that of its files."""

    def encode(self, text: str) -> Encoding:
        """The tokens of a prefix. Raises PivotalError if a word is outside the vocabulary."""
        return self.vocabulary.encode(text)

    def tokens_of(self, word: str) -> tuple[int, ...]:
        """The tokens of `word` after a prefix. Raises PivotalError with the reason if it has none."""
        return self.vocabulary.tokens_of(word)

    def word(self, token: int) -> str:
        """The text of a token."""
        return self.vocabulary.word(token)

    @abstractmethod
    def prepare(self, tree: PrefixTree) -> Any:
        """Compute once whatever no edit of this tree can change, such as input projections and frozen states."""

    @abstractmethod
    def compute(self, prepared: Any, edit: Edit | None) -> Float[Tensor, "live runs width"]:
        """The last hidden state of every live node, in the tree's order. The edit is one of the model's own sites."""

    def states(self, prepared: Any, edit: Edit | None = None) -> Float[Tensor, "live runs width"]:
        """The last hidden state of every live node, in the tree's order, with the edit applied."""
        wanted = None if edit is None else sites_of(edit)
        if wanted and (unknown := sorted(wanted - {site.name for site in self.sites})):
            raise PivotalError(
                f"{self.name} has no {', '.join(unknown)}. A site in a basis needs the model with that basis."
            )
        return self.compute(prepared, None if edit is None else in_own_sites(edit, self.bases))

    def untouched(self, tree: PrefixTree) -> tuple[Float[Tensor, "live width"], Any]:
        """The last states of the untouched model, and what else the pass computed that shortens passes over other trees
        of the same prefixes; None if nothing. The prepared data of such a tree take it as `known`, and as `rows` the
        row of each node among the live nodes of this tree."""
        return self.states(self.prepare(tree))[:, 0], None

    def fixed(self, prepared: Any, runs: int) -> Any | None:
        """The prepared data of a tree as nested dataclasses, lists and dictionaries of tensors. Passes of `runs` runs
        over it launch the same kernels for all trees of one shape. What a pass would cache for later passes is left
        out, so that every pass computes it. None if the model has no such passes, or not with so many runs."""
        return None

    @abstractmethod
    def readout(
        self, states: Float[Tensor, "*rows width"], ids: Int[Tensor, " words"] | None = None
    ) -> Float[Tensor, "*rows words"]:
        """The logits of some words, or of the whole vocabulary, in float32 or better."""

    def mean_row(self, p: Float[Tensor, "nodes vocabulary"]) -> Float[Tensor, "nodes width"] | None:
        """The mean row of the output projection under some distributions over the vocabulary. None if logits are not
        the product of a state with that projection, in float32 or better, plus a bias."""
        return None

    def reading(self, prompt: Sequence[int], texts: int, applied: Applied) -> Reading:
        """Read a prompt, to be continued by `texts` texts token by token. A model that can keep its state overrides
        this; the default reads every text again after each token."""
        return Rereading(self, prompt, texts, applied)

    def attached(self, edit: Edit, direction: int, cues: Sequence[int] | None) -> AbstractContextManager[Any]:
        """The module of the model with an edit attached. `IntervenedModel.attached` describes it."""
        raise PivotalError(
            f"{self.name} is not a Transformers model and has no `generate` of its own. Use that of `intervened`."
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name}, {self.unit_space()})"

    def describe(self) -> str:
        """One line about how this model reads sentences."""
        return self.name

    def unit_space(self, sites: str = "all") -> UnitSpace:
        """The units of the sites that a pattern selects, such as `hidden.0` or `mlp.3-8`."""
        return UnitSpace(select_sites(self.sites, sites))

    @property
    def layers(self) -> tuple[Site, ...]:
        """The sites that hold the outputs of the layers, from the first layer to the last. A trace follows an edit
        along them. By default these are the sites of the kind that is computed last."""
        own = [site for site in self.sites if not site.basis]
        return tuple(site for site in own if site.kind == own[-1].kind)

    def unit(self, name: str) -> Unit:
        """The unit with a name such as `hidden.0:122`."""
        site, _, index = name.strip().rpartition(":")
        sites = {site.name: site for site in self.sites}
        if site not in sites:
            raise PivotalError(
                f"A unit is named like {self.sites[0].name}:0, but {name!r} names no site.{did_you_mean(site, sites)}"
            )
        there = sites[site]
        if not (index.isascii() and index.isdigit() and len(index) < 10 and int(index) < there.width):
            raise PivotalError(
                f"{site} has units 0 to {there.width - 1}; there is no unit {index or 'without index'}."
            )
        return Unit(site, int(index), there.size)

    def writes(self, units: Sequence[Unit]) -> Float[Tensor, "units width"] | None:
        """What each unit adds to the last of `layers` per unit of its activation, through no later layer: zeros if
        there is no such path. None if this adapter cannot tell, or for units of several coordinates."""
        return None

    def in_bases(self, bases: Mapping[str, StoredBasis | Basis]) -> LanguageModel:
        """The model with further sites: coordinates of its own sites in other bases, such as `resid.12@pca`.

        It is the same function with the same fingerprint, and shares the weights. A basis that the model has already
        is kept, and one of the same name and other numbers is replaced. An intervention carries the `bases` of its
        units.
        """
        new = {name: b if isinstance(b, Basis) else Basis.of(b) for name, b in bases.items()}
        known = {name: basis.fingerprint for name, basis in self.bases.items()}
        new = {name: basis for name, basis in new.items() if known.get(name) != basis.fingerprint}
        if not new:
            return self
        own = {site.name: site for site in self.sites if not site.basis}
        for name, basis in new.items():
            if (site := own.get(own_site(name))) is None:
                raise PivotalError(
                    f"The basis of {name} belongs to a model with the site {own_site(name)}, which {self.name} lacks."
                )
            check_basis(basis, site.name, site.coordinates, name)
        model = copy.copy(self)
        model.bases = {**self.bases, **{name: basis.to(self.device) for name, basis in new.items()}}
        model.sites = tuple(
            shown
            for site in own.values()
            for shown in (site, *(_site(n, b) for n, b in model.bases.items() if own_site(n) == site.name))
        )
        return model

    def without_bases(self) -> LanguageModel:
        """The model with its own sites only, such as one in which a basis is fitted again."""
        model = copy.copy(self)
        model.bases, model.sites = {}, tuple(site for site in self.sites if not site.basis)
        return model

    def check_length(self, tokens: int) -> None:
        """Raise PivotalError if the model cannot read a text of this many tokens."""
        if self.longest is not None and tokens > self.longest:
            raise PivotalError(
                f"A text for {self.name} may have at most {self.longest} tokens, but this one has {tokens}. Shorten it."
            )

    # -- interventions, next words and continuations --------------------------------------------------------------

    def intervention(
        self, values: Mapping[str, Any], directions: tuple[str, str], steps: Steps = "every"
    ) -> Intervention:
        """An intervention made by hand: for each unit's name, its value in either direction.

        `model.intervention({"hidden.1:276": (1.0, -1.0)}, ("singular", "plural"))`. A unit of several coordinates
        takes a list of values in either direction.
        """
        units = tuple(self.unit(name) for name in values)
        try:
            columns = [np.array(both, dtype=np.float32).reshape(2, -1) for both in values.values()]
        except (TypeError, ValueError):
            raise PivotalError(
                f"Every unit takes two values, such as (1.0, -1.0), not {', '.join(map(str, values.values()))}."
            ) from None
        return Intervention(
            units=units,
            directions=directions,
            values=np.concatenate(columns, axis=1) if columns else np.zeros((2, 0)),
            steps=steps,
            model=self.name,
            model_fingerprint=self.fingerprint(),
            phenomenon="by hand",
            data_fingerprint="",
            bases=stored_bases(self.bases, units),
        )

    def intervened(
        self,
        intervention: Intervention,
        direction: str,
        *,
        cue: int | str | None = None,
        any_model: bool = False,
    ) -> IntervenedModel:
        """This model with an intervention applied: `model.intervened(found.best, "plural").next_words(prompt)`.

        A single-step intervention acts at one word of the prompt: `cue` is its text or its 0-based index. The
        intervention must come from this model, unless `any_model` is set.
        """
        self.recognise(given_intervention(intervention).model_fingerprint)
        intervention.check_model(self.name, self.fingerprint(), any_model=any_model)
        if intervention.steps == "single" and cue is None:
            raise PivotalError(
                "A single-step intervention acts at one word. Name it, or give its 0-based index, with cue= or --cue."
            )
        return IntervenedModel(self, intervention, intervention.direction(direction), cue)

    def next_logits(self, prompts: Sequence[Sequence[int]]) -> Float[Tensor, "prompts vocabulary"]:
        """The logits of the next token after each prompt, a list of token ids."""
        return IntervenedModel(self).next_logits(prompts)

    def next_words(self, prompt: str, k: int = 5) -> list[NextWord]:
        """The k most likely next words with their probabilities."""
        return IntervenedModel(self).next_words(prompt, k)

    def generate(
        self, prompt: str, *, words: int = 20, samples: int = 1, temperature: float = 1.0, seed: int = 0
    ) -> list[str]:
        """Continuations of a prompt. Temperature 0 takes the most likely word at every step."""
        how: Any = {"words": words, "samples": samples, "temperature": temperature, "seed": seed}
        return IntervenedModel(self).generate(prompt, **how)


def _site(name: str, basis: Basis) -> Site:
    return Site(name, basis.coordinates, within=own_site(name), basis=basis.fingerprint)


class ModelSource(ABC):
    """Opens models by name. One file in `pivotal/models/` adds a source."""

    name: ClassVar[str]
    summary: ClassVar[str]

    @abstractmethod
    def listed(self) -> list[tuple[str, str]]:
        """The name and a one-line description of each model that can be opened by name alone."""

    @abstractmethod
    def open(
        self, spec: str, *, device: torch.device, dtype: torch.dtype | None, priming: str | None
    ) -> LanguageModel | None:
        """The model, or None if this source does not know such names. With dtype None the source chooses one."""
