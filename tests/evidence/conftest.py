"""A problem of the planted model, and the intervention that solves it."""

import pytest
from tests.interventions import intervention_of
from tests.planted import PAIRS, PLANTED

from pivotal import Intervention, Problem


@pytest.fixture(scope="package")
def problem() -> Problem:
    return Problem(PLANTED.model, PAIRS.sample(300), steps="every")


@pytest.fixture(scope="package")
def found(problem: Problem) -> Intervention:
    """The planted units, set to +1 for singular and -1 for plural."""
    return intervention_of(problem.model, PLANTED.units, [[1.0] * 3, [-1.0] * 3])
