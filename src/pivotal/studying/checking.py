"""What a recipe names must be there: looked at before anything runs, so that all that is missing is said at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from pivotal.errors import PivotalError
from pivotal.models import list_models, load_model
from pivotal.phenomena import load_phenomenon
from pivotal.studying.cells import Cell


def check_there(cells: Iterable[Cell]) -> None:
    cells = list(cells)
    missing = [
        *_missing("model", _find_model, (cell.question.model for cell in cells)),
        *_missing("phenomenon", load_phenomenon, (cell.question.phenomenon for cell in cells)),
    ]
    if missing:
        many = "One thing" if len(missing) == 1 else f"{len(missing)} things"
        raise PivotalError(
            f"{many} that the recipe names cannot be had; nothing was run.\n" + "\n".join(missing)
        )


def _missing(kind: str, look: Callable[[str], object], names: Iterable[str]) -> list[str]:
    found = []
    for name in dict.fromkeys(names):
        try:
            look(name)
        except PivotalError as error:
            found.append(f"- {kind} '{name}': {error}")
    return found


def _find_model(spec: str) -> None:
    """Loads nothing that is listed or lies on the disk or the hub; what is left is tried, and fails soon."""
    listed = {name for name, _ in list_models()}
    if spec in listed or spec.partition(":")[0] in {*listed, "hf"} or Path(spec).exists():
        return
    load_model(spec, device="cpu")
