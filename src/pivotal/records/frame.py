"""Rows as a data frame of pandas, or of polars if only that is installed. Neither is a dependency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from pivotal.errors import PivotalError


def to_frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """A pandas.DataFrame or polars.DataFrame with a row for each mapping."""
    for library in ("pandas", "polars"):
        if find_spec(library) is not None:
            return import_module(library).DataFrame([dict(row) for row in rows])
    raise PivotalError("A data frame needs pandas or polars; neither is installed. Run pip install pandas.")
