"""A model some of whose sites can also be edited in other bases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.models.base import Encoding, LanguageModel
from pivotal.models.bases.basis import Basis, check_basis
from pivotal.models.bases.edit import EditInBases, own
from pivotal.models.edits import Edit, sites_of
from pivotal.models.reading import Applied, Reading
from pivotal.models.tree import PrefixTree
from pivotal.records.basis import StoredBasis
from pivotal.records.intervention import Intervention
from pivotal.units import Site, Unit, UnitSpace


class ModelInBases(LanguageModel):
    """A model with further sites: the coordinates of its own sites in other bases.

    `bases` maps the name of a further site, such as `resid.12@pca`, to its basis. Everything else is the model's own:
    it is the same function and has the same fingerprint.
    """

    def __init__(self, model: LanguageModel, bases: Mapping[str, Basis]) -> None:
        self._model = model.plain
        there = {site.name: site for site in self._model.sites}
        self.bases: dict[str, Basis] = {}
        for name, basis in bases.items():
            if (site := there.get(own(name))) is None:
                raise PivotalError(
                    f"The site {name} needs a site {own(name)}, but {model.name} has none. "
                    "Use the model that the basis was made for."
                )
            check_basis(basis, site.name, site.coordinates, name)
            self.bases[name] = basis.to(model.device)
        self._sites = tuple(
            shown
            for site in self._model.sites
            for shown in (site, *(_site(name, b) for name, b in self.bases.items() if own(name) == site.name))
        )

    @property
    def plain(self) -> LanguageModel:
        return self._model

    @property
    def name(self) -> str:  # type: ignore[override]
        return self._model.name

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return self._model.device

    @property
    def dtype(self) -> torch.dtype | None:  # type: ignore[override]
        return self._model.dtype

    @property
    def batch_nodes(self) -> int | None:  # type: ignore[override]
        return self._model.batch_nodes

    @batch_nodes.setter
    def batch_nodes(self, nodes: int | None) -> None:
        self._model.batch_nodes = nodes

    @property
    def longest(self) -> int | None:  # type: ignore[override]
        return self._model.longest

    @property
    def sites(self) -> tuple[Site, ...]:
        return self._sites

    @property
    def layers(self) -> tuple[Site, ...]:
        return self._model.layers

    def unit_space(self, sites: str = "all") -> UnitSpace:
        return LanguageModel.unit_space(self, sites) if "@" in sites else self._model.unit_space(sites)

    # -- words --------------------------------------------------------------------------------------------------

    @property
    def vocabulary_size(self) -> int:
        return self._model.vocabulary_size

    @property
    def readable(self) -> int:
        return self._model.readable

    def fingerprint(self) -> str:
        return self._model.fingerprint()

    def is_primed_with(self, text: str) -> bool | None:
        return self._model.is_primed_with(text)

    def encode(self, text: str) -> Encoding:
        return self._model.encode(text)

    def tokens_of(self, word: str) -> tuple[int, ...]:
        return self._model.tokens_of(word)

    def word_ends(self) -> tuple[int, ...]:
        return self._model.word_ends()

    def knows(self, word: str) -> bool:
        return self._model.knows(word)

    def whole_words(self) -> list[str]:
        return self._model.whole_words()

    @property
    def unknown_word(self) -> str | None:
        return self._model.unknown_word

    def word(self, token: int) -> str:
        return self._model.word(token)

    def join(self, words: Sequence[str]) -> str:
        return self._model.join(words)

    def continued(self, prompt: str, tokens: Sequence[int]) -> str:
        return self._model.continued(prompt, tokens)

    def describe(self) -> str:
        return self._model.describe()

    def unspeakable(self) -> list[int]:
        return self._model.unspeakable()

    # -- computation --------------------------------------------------------------------------------------------

    def prepare(self, tree: PrefixTree) -> Any:
        return self._model.prepare(tree)

    def states(self, prepared: Any, edit: Edit | None = None) -> Float[Tensor, "live runs width"]:
        return self._model.states(prepared, self._own(edit))

    def fixed(self, prepared: Any, runs: int) -> None:
        """None: which coordinates are edited is looked up in every pass."""

    def _own(self, edit: Edit | None) -> Edit | None:
        """The edit as one of the model's own sites."""
        if edit is None:
            return None
        wanted = sites_of(edit)
        return EditInBases(edit, self.bases) if wanted is None or wanted & self.bases.keys() else edit

    def reading(self, prompt: Sequence[int], texts: int, applied: Applied) -> Reading:
        return self._model.reading(prompt, texts, replace(applied, edit=self._own(applied.edit)))

    def attached(
        self, intervention: Intervention, direction: int, cues: Sequence[int] | None
    ) -> AbstractContextManager[Any]:
        return self._model.attached(intervention, direction, cues)

    def readout(
        self, states: Float[Tensor, "*rows width"], ids: Int[Tensor, " words"] | None = None
    ) -> Float[Tensor, "*rows words"]:
        return self._model.readout(states, ids)

    def mean_row(self, p: Float[Tensor, "nodes vocabulary"]) -> Float[Tensor, "nodes width"] | None:
        return self._model.mean_row(p)

    @torch.no_grad()
    def writes(self, units: Sequence[Unit]) -> Float[Tensor, "units width"] | None:
        """A coordinate writes what its row of the decoder writes."""
        there = {site.name: site for site in self._model.sites}
        rows = []
        for unit in units:
            if unit.site not in self.bases:
                found = self._model.writes([unit])
            else:
                site, basis = there[own(unit.site)], self.bases[unit.site]
                change = torch.zeros(1, 1, device=self.device) + 1.0
                direction = basis.decode(change, torch.tensor([unit.index], device=self.device))
                each = self._model.writes(list(UnitSpace((site,)))) if site.size == 1 else None
                found = None if each is None else direction @ each
            if found is None:
                return None
            rows.append(found)
        return torch.cat(rows)

    def shuffled(self, seed: int = 0) -> LanguageModel:
        """The shuffled model without bases: one that is fitted to the states of a model is fitted to it again."""
        return self._model.shuffled(seed)


def in_bases(model: LanguageModel, bases: Mapping[str, StoredBasis | Basis]) -> LanguageModel:
    """The model with further sites; the model itself if there are none. Bases of the same name are replaced."""
    if not bases:
        return model
    loaded = {name: b if isinstance(b, Basis) else Basis.of(b) for name, b in bases.items()}
    return ModelInBases(model, {**model.bases, **loaded})


def _site(name: str, basis: Basis) -> Site:
    return Site(name, basis.coordinates, within=own(name), basis=basis.fingerprint)
