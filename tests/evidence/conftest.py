"""A problem of the planted model, and the intervention that solves it."""

from __future__ import annotations

import pytest
from tests.interventions import intervention_of

from pivotal.models.planted import plant
from pivotal.problem.problem import Problem
from pivotal.questions.phenomena import load_phenomenon
from pivotal.records.intervention import Intervention


@pytest.fixture(scope="package")
def problem() -> Problem:
    return Problem(plant().model, load_phenomenon("planted").sample(300), steps="every")


@pytest.fixture(scope="package")
def found(problem: Problem) -> Intervention:
    """The planted units, set to +1 for singular and -1 for plural."""
    return intervention_of(problem.model, plant().units, [[1.0] * 3, [-1.0] * 3])
