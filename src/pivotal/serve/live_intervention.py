"""An intervention with its model, ready for any sentence and any units."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.models.base import LanguageModel
from pivotal.models.intervened import IntervenedModel
from pivotal.problem.examples import Examples
from pivotal.problem.prepare import as_read
from pivotal.problem.problem import Problem
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.questions.question import Question
from pivotal.records.intervention import Intervention
from pivotal.records.serial import Record
from pivotal.serve.requests import UnitValues
from pivotal.units import Site, Unit

_SAMPLE = 128
"""The number of pairs on which the usual states of units are measured."""
_REMEMBERED = 16
"""The number of sentences whose untouched predictions are kept: a slider asks for the same sentence again and again."""


_FACTORS = (-2.0, 2.0)
"""The limits of the factor of a unit of several coordinates."""


class UnitAnswer(Record, frozen=True):
    """What a slider needs to know about a unit."""

    unit: str
    size: int
    """The number of coordinates. With more than one, the slider is a factor of the values of all of them."""
    natural: tuple[float, float] | None
    """The 1st and 99th percentile of its states at the edited steps."""
    limits: tuple[float, float]
    values: tuple[float | None, float | None]
    """For each direction: the value in the run, null if it is not set, or the natural value of another unit."""


@dataclass(frozen=True)
class LiveIntervention:
    """The model of a run, its intervention, and the pairs that the run has stored."""

    model: LanguageModel
    question: Question
    intervention: Intervention
    pairs: PairSet

    @property
    def labels(self) -> tuple[str, str]:
        return self.intervention.directions

    def as_read(self, pairs: Sequence[MinimalPair]) -> PairSet:
        """Pairs as the run's question wants the model to read them."""
        made = PairSet(self.intervention.phenomenon, self.labels, tuple(pairs))
        return as_read(self.question, self.model, made.lower() if self.question.lower else made)

    # -- units --------------------------------------------------------------------------------------------------

    def about(self, unit: Unit) -> UnitAnswer:
        """What a slider needs to know about a unit."""
        if unit.size > 1:
            return UnitAnswer(str(unit), unit.size, None, _FACTORS, self._where_set(unit, (1.0, 1.0)))
        site = self._site(unit.site)
        low, high = (float(end[unit.index]) for end in self.usual(site)[:2])
        values = self._usual_values(unit)[:, 0].tolist()
        reach = max(high - low, 1e-6)
        limits = site.bounds or (min(low, *values) - reach, max(high, *values) + reach)
        return UnitAnswer(str(unit), 1, (low, high), limits, self._where_set(unit, values))

    def edited(self, units: Sequence[UnitValues]) -> Intervention:
        """The intervention with these units and values. A trace follows units that are not set, too."""
        if not units:  # something has to be followed
            units = [UnitValues(str(self.intervention.units[0]), (None, None))]
        named = [self.model.unit(one.unit) for one in units]
        active = np.array([[value is not None for value in one.values] for one in units], dtype=bool)
        columns = []
        for unit, one in zip(named, units, strict=True):
            given = np.array([value or 0.0 for value in one.values])[:, None]
            columns.append(given if unit.size == 1 else given * self._usual_values(unit))
        values = np.concatenate(columns, 1)
        if not np.isfinite(values).all() or np.abs(values).max() > np.finfo(np.float32).max:
            raise PivotalError("The values of units must be finite numbers, but some are not.")
        return replace(
            self.intervention,
            units=tuple(named),
            values=values,
            active=active.T,
            found_with="unbounded",
            scores={},
        )

    def _usual_values(self, unit: Unit) -> np.ndarray:
        """The values of the unit's coordinates for both directions: those of the run or, for another unit, its mean
        activations where the model already prefers that label."""
        own = self.intervention.units
        if unit in own:
            start = sum(one.size for one in own[: own.index(unit)])
            return self.intervention.values[:, start : start + unit.size]
        target = self.usual(self._site(unit.site))[2]
        return target[:, unit.index * unit.size : (unit.index + 1) * unit.size].numpy()

    def _where_set(self, unit: Unit, values: Sequence[float]) -> tuple[float | None, float | None]:
        """The values, without those of a direction in which the run does not set the unit."""
        own = self.intervention.units
        set_in = self.intervention.active[:, own.index(unit)] if unit in own else (True, True)
        first, second = (value if on else None for value, on in zip(values, set_in, strict=True))
        return first, second

    # -- states and predictions ---------------------------------------------------------------------------------

    def _site(self, name: str) -> Site:
        return next(site for site in self.model.sites if site.name == name)

    @cached_property
    def _examples(self) -> Examples:
        return Examples.of(self.model, self.pairs.at_most(_SAMPLE), self.intervention.steps)

    @cached_property
    def usual(self) -> Callable[[Site], tuple[Tensor, Tensor, Tensor]]:
        """The states of a site in the untouched model at the edited steps, measured once on some of the stored pairs:
        the 1st and the 99th percentile of each coordinate, and for each direction its mean where the model already
        prefers that label."""
        return lru_cache(None)(self._measured)

    def _measured(self, site: Site) -> tuple[Tensor, Tensor, Tensor]:
        problem = Problem(self.model, self._examples, sites=site.name, steps=self.intervention.steps)
        low, high = problem.natural_range()
        return low.cpu(), high.cpu(), problem.measure_activations().target.cpu()

    @cached_property
    def untouched(self) -> Callable[[tuple[int, ...]], Tensor]:
        """The log-probabilities of the next token in the untouched model."""
        model = IntervenedModel(self.model)
        return lru_cache(_REMEMBERED)(lambda ids: model.next_logits([ids])[0].log_softmax(-1))
