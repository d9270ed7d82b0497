"""Sources of minimal pairs. Each file in this folder adds one source."""

from __future__ import annotations

from pathlib import Path

from pivotal.errors import PivotalError, did_you_mean
from pivotal.options import build
from pivotal.questions.pairs import PairSet, read_pairs
from pivotal.questions.pairs_file import SUFFIXES
from pivotal.questions.phenomena.base import Phenomenon
from pivotal.registry import Registry

__all__ = ["PHENOMENA", "Phenomenon", "load_phenomenon"]

PHENOMENA: Registry[Phenomenon] = Registry(
    "phenomena",
    "pivotal.questions.phenomena",
    Phenomenon,  # type: ignore[type-abstract]
)


def load_phenomenon(spec: str | Path, **options: object) -> PairSet:
    """Load pairs by name ("number-agreement"), by name and path ("lakretz:FOLDER"), or from a file ("my.jsonl")."""
    name, _, path = str(spec).partition(":")
    if name in PHENOMENA:
        cls = PHENOMENA.get(name)
        if cls.takes_path and not path:
            raise PivotalError(f"'{name}' reads files and needs to know where they are. Write {name}:PATH.")
        if path and not cls.takes_path:
            raise PivotalError(f"'{name}' makes its own pairs and takes no path, not '{path}'. Write {name}.")
        return build(cls, {**options, "path": path} if path else options).pairs()
    if Path(spec).suffix.lower() in SUFFIXES or Path(spec).exists():
        if options:
            raise PivotalError(f"A pairs file takes no options, not '{next(iter(options))}'.")
        return read_pairs(spec)
    raise PivotalError(
        f"A phenomenon is a known name or a pairs file ({', '.join(SUFFIXES)}), but '{spec}' is neither."
        f"{did_you_mean(name, PHENOMENA.names())}"
    )
