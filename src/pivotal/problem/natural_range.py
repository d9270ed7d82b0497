"""The natural range of each unit: where its own states are in the untouched model."""

from __future__ import annotations

import numpy as np

from pivotal.models.base import LanguageModel
from pivotal.problem.activations import Range, natural_range
from pivotal.problem.examples import Examples
from pivotal.problem.outcome import Work
from pivotal.units import UnitSpace

SAMPLE = 512
"""Number of prefixes on which activations are measured."""


class NaturalRange:
    """Measures the natural ranges of a problem once, also for its parts.

    It refers to no problem. A problem keeps its batches and samples; if these referred back to it, the model would stay
    in memory until Python looks for cycles, which can take many large models.
    """

    def __init__(self, model: LanguageModel, examples: Examples, space: UnitSpace, work: Work) -> None:
        self._model, self._examples, self._space, self._work = model, examples, space, work
        self._found: Range | None = None

    def measure(self) -> Range:
        if self._found is None:
            chosen = sampled(self._examples.tree.leaf, SAMPLE)
            examples = self._examples if chosen is None else self._examples.restrict(chosen)
            self._work.forward += examples.tree.n_live
            self._found = natural_range(self._model, examples.tree, self._space)
        return self._found


def sampled(leaves: np.ndarray, prefixes: int, seed: int = 0) -> np.ndarray | None:
    """The examples of a random sample of distinct prefixes, by the node of each example; None if all are taken."""
    distinct = np.unique(leaves)
    if not prefixes or len(distinct) <= prefixes:
        return None
    chosen = np.random.default_rng(seed).choice(distinct, prefixes, replace=False)
    return np.flatnonzero(np.isin(leaves, chosen))
