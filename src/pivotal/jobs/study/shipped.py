"""The recipes that come with the package, known by their names: those of the paper's tables, and some beyond."""

from __future__ import annotations

from pathlib import Path

from pivotal.files import asset


def shipped() -> dict[str, Path]:
    return {path.stem: path for path in sorted(asset("recipes").glob("*.yaml"))}
