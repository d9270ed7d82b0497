"""The preferences of questions that must stay, and how far an edit changes them."""

from __future__ import annotations

import weakref
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.problem.word_index import WordIndex

if TYPE_CHECKING:
    from pivotal.problem.problem import Problem

_DIRECTIONS = 2


class Preferences:
    """The kept pairs of a problem, each edited in both directions.

    If a model chose between the two words of a pair by their probabilities, it would choose the expected word with
    probability p. The change of a question in one direction of the edit is the mean of p' - p over its pairs, where p'
    is that probability in the edited model. It is the change of the question's accuracy, without the jumps. If a pair
    states no label, the word that the untouched model prefers is expected.
    """

    def __init__(self, problem: Problem) -> None:
        # Weak, because the problem keeps this object. With a cycle of references, a large model would stay in memory
        # until Python collects garbage.
        self._problem: Problem = weakref.proxy(problem)
        self._pairs = [one for one in problem.examples.kept if one.words is not None]
        self.names: tuple[str, ...] = tuple(dict.fromkeys(one.name for one in self._pairs))
        """The questions, in their order in --keep."""
        self.changes = _DIRECTIONS * len(self.names)
        """The number of changes: those of the first question in both directions, then those of the next."""

    @cached_property
    def _index(self) -> WordIndex:
        sets = tuple(dict.fromkeys(side for one in self._pairs for side in one.words or ()))
        place = {side: i for i, side in enumerate(sets)}
        words = np.array([[place[side] for side in one.words or ()] for one in self._pairs]).repeat(2, 0)
        rows = self._problem.tree.live_row[self._leaves]
        return WordIndex.of(rows, sets, words[:, 0], words[:, 1], self._problem.model.device)

    @cached_property
    def _leaves(self) -> np.ndarray:
        """The leaves of the pairs. Each pair has two, one for each direction."""
        return self._problem.tree.leaf[np.concatenate([one.places for one in self._pairs])]

    def _first(self, states: Float[Tensor, "live runs width"]) -> Float[Tensor, "runs leaves"]:
        """The probability of the word of the first label."""
        first, second = self._index.read(self._problem.model, states)
        return (first - second).float().sigmoid()

    @cached_property
    def _untouched(self) -> Float[Tensor, "1 leaves"]:
        with torch.no_grad():
            return self._first(self._problem.clean_states[:, None])

    @cached_property
    def _share(self) -> Float[Tensor, "leaves changes"]:
        """The weight of each leaf in the mean of its question and direction, negative where the word of the second
        label is expected."""
        device = self._problem.model.device
        stated = np.array([-1 if one.expected is None else one.expected for one in self._pairs]).repeat(2)
        preferred = (self._untouched[0] < 0.5).long().cpu().numpy()
        expected = np.where(stated < 0, preferred, stated)
        question = np.array([self.names.index(one.name) for one in self._pairs]).repeat(2)
        direction = self._problem.tree.direction[self._leaves]
        column = _DIRECTIONS * question + direction
        share = (column[:, None] == np.arange(self.changes)) * (1.0 - 2.0 * expected[:, None])
        share = share / np.abs(share).sum(0)
        return torch.as_tensor(share, dtype=torch.float32, device=device)

    def change(self, states: Float[Tensor, "live runs width"]) -> Float[Tensor, "runs changes"]:
        """The change of each question in each direction: positive if the expected words become more likely."""
        if not self.names:
            return states.new_zeros(states.shape[1], 0, dtype=torch.float32)
        return (self._first(states) - self._untouched) @ self._share

    @staticmethod
    def by_direction(each: Float[Tensor, "runs changes"]) -> Float[Tensor, "runs questions directions"]:
        """Numbers for each change, with the two directions of a question apart."""
        return each.unflatten(1, (-1, _DIRECTIONS))
