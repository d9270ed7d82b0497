"""Where the words of each example are in a readout of the model.

A readout computes the logits of the distinct tokens at the distinct leaves. A word of one token is one column of it.
The words of a set are several columns, whose logits are combined by logsumexp. A set of many tokens, such as all tokens
that end a word, is read out on its own, at the leaves that need it, in chunks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from pivotal.models.base import LanguageModel
from pivotal.models.tensors import distinct_rows
from pivotal.problem.asking import Tokens

_LARGE = 256
"""A set of more tokens is large."""
_ENTRIES = 20_000_000
"""The most logits of a large set in memory."""


@dataclass(frozen=True, slots=True)
class LargeSet:
    """A set of many tokens, and the leaves at which it is compared."""

    tokens: Int[Tensor, " tokens"]
    rows: Int[Tensor, " rows"]


@dataclass(frozen=True, slots=True)
class Group:
    """Examples whose words have the same number of columns."""

    leaf: Int[Tensor, " group"]
    columns: Int[Tensor, "group columns"]

    def read(self, by_run: Float[Tensor, "runs leaves words"]) -> Float[Tensor, "runs group"]:
        if self.columns.shape[1] == 1:
            return by_run[:, self.leaf, self.columns[:, 0]]
        return by_run[:, self.leaf[:, None], self.columns].logsumexp(-1)


@dataclass(frozen=True, slots=True)
class Side:
    """One side of the examples, grouped by the number of columns."""

    groups: tuple[Group, ...]
    order: Int[Tensor, " examples"] | None
    """The place of each example in the concatenated groups; None for a single group, which is in order."""

    def read(self, by_run: Float[Tensor, "runs leaves words"]) -> Float[Tensor, "runs examples"]:
        found = [group.read(by_run) for group in self.groups]
        return found[0] if self.order is None else torch.cat(found, 1)[:, self.order]


@dataclass(frozen=True, slots=True)
class WordIndex:
    """The indices of the two words of each example in a readout of the distinct tokens at the distinct leaves."""

    vocabulary: Int[Tensor, " tokens"]
    leaves: Int[Tensor, " leaves"]
    large: tuple[LargeSet, ...]
    first: Side
    second: Side

    @staticmethod
    def of(
        rows: np.ndarray,
        sets: tuple[Tokens, ...],
        first: np.ndarray,
        second: np.ndarray,
        device: torch.device,
        *,
        all_sets: bool = False,
    ) -> WordIndex:
        """`rows` are the rows of the examples among the live nodes. `first` and `second` are the indices in `sets` of
        their two words. With `all_sets`, a readout has the tokens of all sets, not only of those that occur."""
        used = list(range(len(sets))) if all_sets else np.unique(np.stack([first, second])).tolist()
        vocabulary = sorted({token for i in used if len(sets[i]) <= _LARGE for token in sets[i]})
        column = {token: i for i, token in enumerate(vocabulary)}
        leaves, leaf = np.unique(rows, return_inverse=True)
        large: list[LargeSet] = []
        columns: dict[int, list[int]] = {}
        for i in used:
            if len(sets[i]) > _LARGE:
                columns[i] = [len(vocabulary) + len(large)]
                needed = np.unique(leaf[(first == i) | (second == i)])
                large.append(LargeSet(_tensor(sets[i], device), _tensor(needed, device)))
            else:
                columns[i] = [column[token] for token in sets[i]]
        return WordIndex(
            _tensor(vocabulary, device),
            _tensor(leaves, device),
            tuple(large),
            _side(leaf, first, columns, device),
            _side(leaf, second, columns, device),
        )

    def read(
        self, model: LanguageModel, states: Float[Tensor, "live runs width"]
    ) -> tuple[Float[Tensor, "runs examples"], Float[Tensor, "runs examples"]]:
        """The log-probabilities of the two words of each example, up to the denominator of the softmax, which is the
        same for both."""
        states = distinct_rows(states, self.leaves)
        logits = model.readout(states, self.vocabulary)
        if self.large:
            logits = torch.cat([logits, *(_large_column(model, states, one) for one in self.large)], -1)
        by_run = logits.transpose(0, 1)
        return self.first.read(by_run), self.second.read(by_run)


def _tensor(values: np.ndarray | list[int] | Tokens, device: torch.device) -> Tensor:
    return torch.as_tensor(np.asarray(values, dtype=np.int64), device=device)


def _side(leaf: np.ndarray, words: np.ndarray, columns: dict[int, list[int]], device: torch.device) -> Side:
    width = np.array([len(columns[i]) for i in words.tolist()])
    groups, order = [], []
    for size in np.unique(width).tolist():
        rows = np.flatnonzero(width == size)
        some = np.array([columns[i] for i in words[rows].tolist()])
        groups.append(Group(_tensor(leaf[rows], device), _tensor(some, device)))
        order.append(rows)
    place = None if len(groups) == 1 else _tensor(np.argsort(np.concatenate(order)), device)
    return Side(tuple(groups), place)


def _large_column(
    model: LanguageModel, states: Float[Tensor, "leaves runs width"], one: LargeSet
) -> Float[Tensor, "leaves runs 1"]:
    """The logsumexp of a large set at the leaves that need it, and 0 elsewhere."""
    runs = states.shape[1]

    def added(part: Tensor) -> Tensor:
        return model.readout(part, one.tokens).logsumexp(-1)

    at_once = max(1, _ENTRIES // (len(one.tokens) * runs))
    parts = [_light(added, distinct_rows(states, rows)) for rows in one.rows.split(at_once)]
    found = torch.cat(parts)
    return found.new_zeros(len(states), runs).index_copy(0, one.rows, found)[..., None]


def _light(compute: Callable[[Tensor], Tensor], states: Tensor) -> Tensor:
    """Compute without keeping the logits of many tokens for the backward pass, which computes them again."""
    if torch.is_grad_enabled() and states.requires_grad:
        return checkpoint(compute, states, use_reentrant=False, preserve_rng_state=False)
    return compute(states)
