"""Interventions made by hand, for tests."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pivotal import Intervention
from pivotal.models import LanguageModel
from pivotal.units import Unit


def intervention_of(
    model: LanguageModel, units: Sequence[Unit], values: Any, steps: Any = "every", **more: Any
) -> Intervention:
    """An intervention of these units, whose directions are singular and plural."""
    about = (steps, model.name, model.fingerprint(), "planted", "")
    return Intervention(tuple(units), ("singular", "plural"), np.array(values), *about, **more)
