"""Pairs prepared for a model: tokenised, in a prefix tree, with the word that the untouched model prefers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.models.base import LanguageModel
from pivotal.models.tree import PrefixTree
from pivotal.problem.asking import AskedPair, Rejected, Tokens, askable
from pivotal.problem.counterfactuals import Counterfactuals, match
from pivotal.problem.kept import KeptSentence, KeptSentences
from pivotal.problem.text import cure_of
from pivotal.problem.word_index import WordIndex
from pivotal.questions.pairs import PairSet
from pivotal.units import Steps

_FEWEST_KEPT = 12
"""The fewest sentences of each kept question or text in a subset of the examples."""
_MOST_BYTES = 2**27
"""The most bytes of untouched states that are kept, 134 MB. If there are more, each batch computes its own again."""


@dataclass(frozen=True, slots=True)
class UntouchedStates:
    """The states of the untouched model at the nodes of a clean tree. Other trees of the same tokens, those of batches
    and samples, look their nodes up in it."""

    states: Float[Tensor, "nodes width"]
    known: Any
    """What the model keeps of the pass."""
    _rows: dict[tuple[int | None, int], int]
    """The row of each node, by the row of its parent (-1 for the root) and its token."""

    @staticmethod
    def of(tree: PrefixTree, states: Float[Tensor, "nodes width"], known: Any) -> UntouchedStates | None:
        """Keep the states of a tree in which every node is live; None if they are too many."""
        if states.nbytes > _MOST_BYTES:
            return None
        links = zip((tree.parent[1:] - 1).tolist(), tree.token[1:].tolist(), strict=True)
        return UntouchedStates(states, known, {link: row for row, link in enumerate(links)})

    def rows(self, tree: PrefixTree) -> Int[Tensor, " nodes"] | None:
        """The row of each node of a tree, -1 for the root; None if the tree has other prefixes."""
        rows: list[int | None] = [-1]
        for parent, token in zip(tree.parent[1:].tolist(), tree.token[1:].tolist(), strict=True):
            rows.append(self._rows.get((rows[parent], token)))
        return None if None in rows else torch.tensor(rows, device=self.states.device)


@dataclass(frozen=True, slots=True)
class Examples:
    """The pairs that the model can be asked, with the data that a masked run needs."""

    pairs: PairSet
    tree: PrefixTree
    direction: np.ndarray
    """For each example, the index of the target label. It is the label of the word that is not preferred."""
    sets: tuple[Tokens, ...]
    """The distinct sets of tokens whose probabilities are added, in order. Sets of one token come first."""
    words: np.ndarray
    """For each example, the indices of the sets of its two labels."""
    asked: tuple[AskedPair, ...]
    """The examples as the model sees them."""
    rejected: Rejected
    counterfactuals: Counterfactuals | None = None
    """Where the examples are matched with counterfactual prefixes, the states of those."""
    kept: tuple[KeptSentence, ...] = ()
    """The sentences that must stay. Their places are those of the last leaves of the tree, which belong to no pair: in
    the first direction, then in the second."""
    whole: Examples | None = None
    """The examples before those without a match were left out."""
    untouched: UntouchedStates | None = None
    """The states of the untouched model after every prefix, if they are not too many."""

    @property
    def name(self) -> str:
        """The name of the pairs."""
        return self.pairs.name

    @staticmethod
    def of(model: LanguageModel, pairs: PairSet, steps: Steps, *, matched: bool = False) -> Examples:
        """With `matched`, or without words, keep the pairs that have a counterfactual prefix for the label to flip
        to."""
        asked, kept, rejected = askable(model, pairs, steps)
        _check_some(asked, model, pairs, rejected, steps)
        sets = tuple(sorted({side for one in asked for side in one.sides}, key=lambda ids: (len(ids), ids)))
        place = {ids: i for i, ids in enumerate(sets)}
        words = np.array([[place[side] for side in one.sides] for one in asked])
        preferred, untouched = _clean_preference(model, asked, sets, words)
        if not pairs.asks_words:
            preferred = np.array([pairs.labels.index(pair.label) for pair in kept])
        if undecided := int((preferred < 0).sum()):
            rejected.reasons[_UNDECIDED] += undecided
            chosen = np.flatnonzero(preferred >= 0).tolist()
            asked, kept = [asked[i] for i in chosen], kept.take(chosen)
            words, preferred = words[chosen], preferred[chosen]
            _check_some(asked, model, pairs, rejected, steps)
        direction = 1 - preferred
        tree = PrefixTree.build([one.ids for one in asked], positions(asked), direction.tolist(), steps)
        examples = Examples(kept, tree, direction, sets, words, tuple(asked), rejected, untouched=untouched)
        if not pairs.asks_words:
            return replace(examples.matched(model, steps)[0], whole=None)
        return examples.matched(model, steps)[0] if matched else examples

    def matched(self, model: LanguageModel, steps: Steps) -> tuple[Examples, np.ndarray]:
        """The examples that have a counterfactual prefix, with their matches in the tree of those prefixes, and their
        indices."""
        if self.counterfactuals is not None:
            return self, np.arange(len(self.pairs))
        found = match(model, self.pairs.pairs, self.asked, self.direction)
        rejected = self.rejected + Rejected(found.reasons)
        if not found.chosen:
            raise PivotalError(
                f"{model.name} cannot match {_any_of(self.pairs)} with a counterfactual prefix: {rejected.describe()}. "
                "Add counterfactual prefixes, or leave --values interchange and --objective counterfactual out."
            )
        chosen = np.array(found.chosen)
        part = self.restrict(chosen)
        to, cues = part.direction.tolist(), positions(part.asked)
        tree = PrefixTree.build(part.sequences, cues, to, steps, found.sources)
        made = replace(part, tree=tree, rejected=rejected, counterfactuals=found.counterfactuals, whole=self)
        return made, chosen

    def keeping(self, kept: KeptSentences, steps: Steps) -> Examples:
        """The same examples, with sentences that must stay in the same tree, once in each direction."""
        n, k = len(self.pairs), len(kept.sequences)
        tree = PrefixTree.build(
            [*self.sequences, *kept.sequences, *kept.sequences],
            [*positions(self.asked), *kept.cues, *kept.cues],
            [*self.direction.tolist(), *[0] * k, *[1] * k],
            steps,
        )
        both = [n + np.concatenate([one.places, k + one.places]) for one in kept.sentences]
        return replace(
            self,
            tree=tree,
            kept=tuple(replace(one, places=at) for one, at in zip(kept.sentences, both, strict=True)),
        )

    def at_last_step(self) -> Examples:
        """The same examples, edited at the last token of the prefix only."""
        tree, last = self.tree, (self.tree.lengths - 1).tolist()
        made = PrefixTree.build(self.sequences, last, self.direction.tolist(), "single", tree.sources())
        return replace(self, tree=made)

    def one_way(self, steps: Steps) -> Examples:
        """The same examples in a tree that is edited in the first direction only: a run of its own is made for each
        direction, and sentences of different directions share their nodes."""
        first = [0] * len(self.asked)
        return replace(self, tree=PrefixTree.build(self.sequences, positions(self.asked), first, steps))

    def turned(self, steps: Steps) -> Examples:
        """The same examples, to be flipped to the word that the model prefers already."""
        direction = 1 - self.direction
        tree = PrefixTree.build(self.sequences, positions(self.asked), direction.tolist(), steps)
        return replace(self, tree=tree, direction=direction)

    @property
    def sequences(self) -> list[Tokens]:
        """The tokens of each example."""
        return [one.ids for one in self.asked]

    @property
    def leaves(self) -> np.ndarray:
        """For each example, the node of its prefix."""
        return self.tree.leaf[: len(self.pairs)]

    @property
    def _question(self) -> np.ndarray:
        """For each example, the number of its question: 0 unless several questions are asked together."""
        names = [pair.group if self.pairs.joint else "" for pair in self.pairs]
        return np.unique(names, return_inverse=True)[1]

    @property
    def weight(self) -> np.ndarray | None:
        """The weight of each example in a mean over the examples. Each of several questions has the same weight. None
        if all examples count the same."""
        if not self.pairs.joint:
            return None
        question = self._question
        pairs = np.bincount(question)
        return 1 / (len(pairs) * pairs[question])

    def _prefixes(self) -> list[np.ndarray]:
        """The nodes of the distinct prefixes of each question. Questions may share some."""
        question = self._question
        return [np.unique(self.leaves[question == one]) for one in np.unique(question)]

    def sampled(self, prefixes: int, seed: int = 0) -> np.ndarray | None:
        """The indices of all examples of a random sample of distinct prefixes; None if all are taken. Several questions
        give equally many prefixes each, or all that they have."""
        if not prefixes or len(np.unique(self.leaves)) <= prefixes:
            return None
        each, rng = self._prefixes(), np.random.default_rng(seed)
        some = -(-prefixes // len(each))
        return self._at([rng.choice(own, min(some, len(own)), replace=False) for own in each])

    def batches(self, prefixes: int, seed: int = 0) -> list[np.ndarray]:
        """The indices of the examples in random batches of about `prefixes` distinct prefixes; 0 makes one batch.
        Several questions have equally many prefixes in a batch, so those of a small question are in several batches."""
        if not prefixes:
            return [np.arange(len(self.pairs))]
        each, rng = self._prefixes(), np.random.default_rng(seed)
        some = max(1, prefixes // len(each))
        parts = max(1, round(max(map(len, each)) / some))
        orders = [rng.permutation(own) for own in each]
        if len(orders) > 1:
            orders = [np.resize(order, max(len(order), parts * some)) for order in orders]
        return [self._at(part) for part in zip(*(np.array_split(one, parts) for one in orders), strict=True)]

    def _at(self, leaves: Sequence[np.ndarray]) -> np.ndarray:
        """The indices of the examples at these nodes."""
        return np.flatnonzero(np.isin(self.leaves, np.concatenate(leaves)))

    def restrict(self, chosen: np.ndarray) -> Examples:
        """A subset of the examples. A subset of the sentences that must stay comes with them."""
        return self.part(chosen, self._some_kept(chosen))

    def part(self, chosen: np.ndarray, kept: Sequence[KeptSentence]) -> Examples:
        """Some of the examples, and some of the sentences that must stay."""
        ends = len(chosen) + np.cumsum([0, *(len(one.places) for one in kept)])
        return replace(
            self,
            pairs=self.pairs.take(chosen.tolist()),
            tree=self.tree.restrict(np.concatenate([chosen, *(one.places for one in kept)])),
            kept=tuple(
                replace(one, places=np.arange(start, stop))
                for one, (start, stop) in zip(kept, itertools.pairwise(ends), strict=True)
            ),
            direction=self.direction[chosen],
            words=self.words[chosen],
            asked=tuple(self.asked[i] for i in chosen.tolist()),
            whole=None,
        )

    def _some_kept(self, chosen: np.ndarray) -> list[KeptSentence]:
        """The sentences that must stay in a subset of the examples: a sample of each question and text."""
        if not self.kept:
            return []
        names = np.array([one.name for one in self.kept])
        distinct = np.unique(names)
        prefixes = len(np.unique(self.tree.leaf[chosen]))
        # Each question has a bound of its own, so that even one of many needs enough sentences to measure it.
        some = max(_FEWEST_KEPT, prefixes // (4 * min(4, len(distinct))))
        rng = np.random.default_rng(int(chosen.sum()))
        drawn = [rng.permutation(np.flatnonzero(names == name))[:some] for name in distinct]
        return [self.kept[i] for i in np.sort(np.concatenate(drawn)).tolist()]

    @property
    def preferred_and_target(self) -> tuple[np.ndarray, np.ndarray]:
        """For each example, the indices of the sets of the preferred word and of the word to flip to."""
        rows = np.arange(len(self.direction))
        return self.words[rows, 1 - self.direction], self.words[rows, self.direction]


def positions(asked: Sequence[AskedPair]) -> list[int]:
    """The positions of the cues; -1 without a cue."""
    return [-1 if one.cue is None else one.cue for one in asked]


_UNDECIDED = "no preference: the model gives the words of both labels the same probability, or none"


def _check_some(
    asked: list[AskedPair], model: LanguageModel, pairs: PairSet, rejected: Rejected, steps: Steps
) -> None:
    if not asked:
        raise PivotalError(
            f"{model.name} cannot score {_any_of(pairs)}: {rejected.describe()}. {cure_of(model, pairs, steps)}"
        )


def _any_of(pairs: PairSet) -> str:
    return "the only pair" if len(pairs) == 1 else f"any of the {len(pairs):,} pairs"


@torch.no_grad()
def _clean_preference(
    model: LanguageModel, asked: list[AskedPair], sets: tuple[Tokens, ...], words: np.ndarray
) -> tuple[np.ndarray, UntouchedStates | None]:
    """The index (0 or 1) of the word that the untouched model prefers; -1 if it prefers neither. A tie is no
    preference: there would be nothing to flip, and its accuracy would depend on the order of the labels. The
    states that the preferences are read from are returned too."""
    tree = PrefixTree.build([one.ids for one in asked])
    states, known = model.untouched(tree)
    untouched = UntouchedStates.of(tree, states, known)
    if not any(sets):
        return np.zeros(len(asked), dtype=np.int64), untouched
    index = WordIndex.of(tree.live_row[tree.leaf], sets, words[:, 0], words[:, 1], model.device)
    first, second = (side[0].cpu().numpy() for side in index.read(model, states[:, None]))
    return np.select([first > second, second > first], [0, 1], default=-1), untouched  # NaN is neither
