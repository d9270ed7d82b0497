"""Compares searches on one question: what each finds with a given number of units, and its cost."""

from __future__ import annotations

from pivotal.jobs.compare.contenders import Contender, contenders, sizes_of
from pivotal.jobs.compare.job import Comparison, ComparisonPlan, compare

__all__ = ["Comparison", "ComparisonPlan", "Contender", "compare", "contenders", "sizes_of"]
