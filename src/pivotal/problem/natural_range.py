"""The natural range of each unit: where its own states are in the untouched model."""

from __future__ import annotations

from pivotal.models.base import LanguageModel
from pivotal.problem.activations import SAMPLE, Range, natural_range
from pivotal.problem.examples import Examples
from pivotal.problem.outcome import Work
from pivotal.units import UnitSpace


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
            chosen = self._examples.sampled(SAMPLE)
            examples = self._examples if chosen is None else self._examples.restrict(chosen)
            self._work.forward += examples.tree.n_live
            self._found = natural_range(self._model, examples.tree, self._space)
        return self._found
