"""Searches: algorithms that solve a Problem. Each file in this folder adds one search."""

from __future__ import annotations

from pivotal.registry import Registry
from pivotal.searches.base import Attempt, Checkpoint, Discovery, Progress, Search

SEARCHES: Registry[Search] = Registry("searches", __name__, Search)  # type: ignore[type-abstract]

__all__ = ["SEARCHES", "Attempt", "Checkpoint", "Discovery", "Progress", "Search"]
