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
    return Intervention(
        units=tuple(units),
        directions=("singular", "plural"),
        values=np.array(values),
        steps=steps,
        model=model.name,
        model_fingerprint=model.fingerprint(),
        phenomenon="planted",
        data_fingerprint="",
        **more,
    )
