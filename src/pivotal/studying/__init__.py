"""Studies: many questions, searches and seeds, one file of rows; on one machine or on Ray."""

from __future__ import annotations

from pivotal.studying.job import Plan, Studied, dry_run, study
from pivotal.studying.recipe import Recipe, parse_recipe, read_recipe
from pivotal.studying.rows import RESULTS, FoundUnit, Results, Row, read_results

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
