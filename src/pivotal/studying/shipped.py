"""The recipes that come with the package, known by their names: those of the paper's tables, and some beyond."""

from __future__ import annotations

from importlib import resources
from pathlib import Path


def shipped() -> dict[str, Path]:
    folder = Path(str(resources.files("pivotal"))) / "data" / "recipes"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}
