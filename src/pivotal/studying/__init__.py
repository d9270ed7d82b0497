"""Studies: many questions, searches and seeds, one file of rows; on one machine or on Ray."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pivotal.studying.job import Plan, Studied, dry_run, study
    from pivotal.studying.recipe import Recipe, parse_recipe, read_recipe
    from pivotal.studying.rows import RESULTS, FoundUnit, Results, Row, read_results

_HOME = {
    "RESULTS": "rows",
    "FoundUnit": "rows",
    "Plan": "job",
    "Recipe": "recipe",
    "Results": "rows",
    "Row": "rows",
    "Studied": "job",
    "dry_run": "job",
    "parse_recipe": "recipe",
    "read_recipe": "recipe",
    "read_results": "rows",
    "study": "job",
}

__all__ = [
    "RESULTS",
    "FoundUnit",
    "Plan",
    "Recipe",
    "Results",
    "Row",
    "Studied",
    "dry_run",
    "parse_recipe",
    "read_recipe",
    "read_results",
    "study",
]


def __getattr__(name: str) -> Any:
    """Names are imported when first used: reports read rows and recipes where there is no torch."""
    if name not in _HOME:
        raise AttributeError(f"module 'pivotal.studying' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"pivotal.studying.{_HOME[name]}"), name)
