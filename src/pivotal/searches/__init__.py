"""Searches: algorithms that solve a Problem. One file in this folder adds one."""

from __future__ import annotations

from pivotal.registry import Registry
from pivotal.searches.base import Checkpoint, Discovery, Progress, Search

SEARCHES: Registry[Search] = Registry("searches", __name__, Search)  # type: ignore[type-abstract]

__all__ = ["SEARCHES", "Checkpoint", "Discovery", "Progress", "Search"]
