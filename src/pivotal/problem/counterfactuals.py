"""Counterfactual prefixes, matched step by step with the prefixes of the examples: the states of units in them, and
what the untouched model says after them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.models.base import LanguageModel
from pivotal.models.edits import Recorder, Sources
from pivotal.models.tree import PrefixTree
from pivotal.models.vocabulary import Encoding
from pivotal.problem.asking import AskedPair, checked_length
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.units import Site, UnitSpace


@dataclass(eq=False)
class Counterfactuals:
    """The tree of the counterfactual prefixes, and the states of its nodes, which are computed once."""

    tree: PrefixTree
    _states: dict[Site, Float[Tensor, "edited coordinates"]] = field(default_factory=dict)
    _last: Float[Tensor, "live width"] | None = None

    def sources(self, model: LanguageModel, space: UnitSpace, tree: PrefixTree) -> Sources:
        """What the nodes of a tree that was matched with this one are set to."""
        assert tree.source is not None
        # Every node but the root, which is node 0, is edited and has a row.
        return Sources(self.states(model, space), torch.as_tensor(tree.source - 1, device=model.device))

    @torch.no_grad()
    def states(
        self, model: LanguageModel, space: UnitSpace
    ) -> dict[str, Float[Tensor, "edited coordinates"]]:
        """The states of the untouched model by site, one row for each node of the tree but the root."""
        if missing := [site for site in space.sites if site not in self._states]:
            columns = {site.name: slice(None) for site in missing}
            recorder = Recorder(columns, self.tree, model.device)
            self._last = model.states(model.prepare(self.tree), recorder)[:, 0]
            self._states |= {site: recorder.states[site.name] for site in missing}
        return {site.name: self._states[site] for site in space.sites}

    @torch.no_grad()
    def said(self, model: LanguageModel, tree: PrefixTree) -> Float[Tensor, "live width"]:
        """The states that the untouched model predicts from in the counterfactual prefixes, for each live node of a
        tree that was matched with this one."""
        assert tree.source is not None
        if self._last is None:
            self._last = model.states(model.prepare(self.tree))[:, 0]
        rows = self.tree.live_row[tree.source[tree.live]]
        return self._last[torch.as_tensor(rows, device=self._last.device)]


@dataclass(frozen=True)
class Matches:
    """The examples that have a usable counterfactual prefix."""

    chosen: list[int]
    sources: list[list[int]]
    """For each of them and each of its tokens, the matching node of the counterfactual tree."""
    counterfactuals: Counterfactuals
    reasons: Counter[str]
    """The number of other examples, by reason."""


def match(
    model: LanguageModel, pairs: Sequence[MinimalPair], asked: Sequence[AskedPair], direction: np.ndarray
) -> Matches:
    """Match each example with the counterfactual prefix of the label that it is to flip to.

    Tokens are matched by the word that they belong to, from the end of the word: the last token of a word, where the
    model has read all of it, with the last token. If the numbers of words differ, the words from the first one that is
    another are counted from the end. Tokens after the prefix, which both words begin with, match each other.
    """
    encodings: dict[str, Encoding] = {}
    chosen, others, places, reasons = [], [], [], Counter[str]()
    for i, (pair, one, to) in enumerate(zip(pairs, asked, direction.tolist(), strict=True)):
        try:
            own, other = _encoded(model, pair, to, encodings)
            others.append(checked_length(model, (*other.ids, *one.ids[len(own.ids) :])))
        except PivotalError as error:
            reasons[str(error)] += 1
            continue
        chosen.append(i)
        places.append(_aligned(own, other, len(one.ids)))
    tree = PrefixTree.build(others, directions=[0] * len(others), steps="every")
    paths = [tree.path(int(leaf)) for leaf in tree.leaf]
    sources = [[path[place] for place in at] for path, at in zip(paths, places, strict=True)]
    return Matches(chosen, sources, Counterfactuals(tree), reasons)


def _encoded(
    model: LanguageModel, pair: MinimalPair, to: int, encodings: dict[str, Encoding]
) -> tuple[Encoding, Encoding]:
    """A prefix and its counterfactual prefix for the label `to`. Raises PivotalError if there is nothing to match."""
    text = pair.counterfactuals[to]
    if not text:
        raise PivotalError("no counterfactual prefix")
    if text == pair.prefix:
        raise PivotalError("the prefix already has the form of the cue that calls for the target")
    for said in (pair.prefix, text):
        if said not in encodings:
            encodings[said] = model.encode(said)
    return encodings[pair.prefix], encodings[text]


def _aligned(own: Encoding, other: Encoding, length: int) -> list[int]:
    """For each token of a prefix and of what follows it, the position of its match in the counterfactual prefix."""
    first = {word: other.word.index(word) for word in set(other.word)}
    longer, same, last = other.word[-1] - own.word[-1], 0, min(own.word[-1], other.word[-1])
    while longer and same < last and _tokens(own, same) == _tokens(other, same):
        same += 1
    places = []
    for position, word in enumerate(own.word):
        match = word if word < same else max(0, same - 1, word + longer)
        from_the_end = own.last_token_of(word) - position
        places.append(max(first[match], other.last_token_of(match) - from_the_end))
    return [*places, *range(len(other.ids), len(other.ids) + length - len(own.ids))]


def _tokens(encoding: Encoding, word: int) -> list[int]:
    return [token for token, of in zip(encoding.ids, encoding.word, strict=True) if of == word]
