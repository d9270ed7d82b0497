"""Rows as a study writes them, with round numbers."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pivotal.jobs.study.recipe import read_recipe
from pivotal.records.serial import encode
from pivotal.records.study import FoundUnit, StudyRecord, StudyRow


def row(cell: Mapping[str, str], seed: int = 0, **changes: Any) -> StudyRow:
    content: dict[str, Any] = {
        "study": "summary", "cell": dict(cell), "key": "-".join(cell.values()), "seed": seed, "status": "done",
        "model": "wiki-lstm", "phenomenon": "number-agreement", "steps": "single", "sites": "all",
        "split": "pairs", "test": None, "split_seed": 0, "priming": None, "dtype": None, "search": "learned",
        "preset": None, "options": {}, "batch": [0, 1, 2], "accuracy": 0.8, "kl": 0.5, "units": 5,
        "search_seconds": 6.0, "total_seconds": 9.0, "forward_nodes": 2_000_000, "backward_nodes": 1_000_000,
        "machine": "a machine", "versions": {"torch": "2.0"},
    }  # fmt: skip
    return StudyRow(**{**content, **changes})


def runs(cell: Mapping[str, str], accuracy: Sequence[float], **changes: Any) -> list[StudyRow]:
    """One batch, a run for every accuracy."""
    seeds = list(range(len(accuracy)))
    return [row(cell, seed, accuracy=accuracy[seed], batch=seeds, **changes) for seed in seeds]


def unit(number: int, to_singular: float, to_plural: float, by_ablation: bool | None = None) -> FoundUnit:
    values: dict[str, float | None] = {"singular": to_singular, "plural": to_plural}
    return FoundUnit("hidden.0", number - 1, values, by_ablation)


def saved(folder: Path, rows: Iterable[StudyRow], **about: str) -> Path:
    """The folder of the study `summary` with these rows."""
    folder.mkdir(exist_ok=True)
    (folder / "recipe.yaml").write_text(read_recipe("summary").text)
    (folder / "results.jsonl").write_text("".join(encode(one, indent=0) + "\n" for one in rows))
    (folder / "study.json").write_text(encode(StudyRecord(name="summary", **about)))
    return folder
