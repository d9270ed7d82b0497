"""Searches side by side: the same question, the same pairs, what each finds with so many units and what it costs."""

from __future__ import annotations

from pivotal.jobs.compare.contenders import Contender, contenders, sizes_of
from pivotal.jobs.compare.job import Comparison, ComparisonPlan, compare

__all__ = ["Comparison", "ComparisonPlan", "Contender", "compare", "contenders", "sizes_of"]
