"""Searches side by side: the same question, the same pairs, what each finds with so many units and what it costs."""

from __future__ import annotations

from pivotal.comparing.contenders import Contender, contenders, sizes_of
from pivotal.comparing.job import Comparison, Plan, compare

__all__ = ["Comparison", "Contender", "Plan", "compare", "contenders", "sizes_of"]
