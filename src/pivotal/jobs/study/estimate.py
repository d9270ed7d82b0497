"""An estimate of how long a study will take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from pivotal.jobs.study.batches import Batch
from pivotal.jobs.study.cells import Cell
from pivotal.records.study_rows import StudyRow

_NODES = {
    "attribution": 20_000,
    "random": 100_000,
    "learned": 360_000,
    "reinforce": 530_000,
    "greedy": 890_000,
    "exchange": 1_800_000,
}
"""Node evaluations of one run of each search for 5 units of the bundled LSTM, number agreement (docs/results.md)."""
_SECONDS = {"cpu": (40.0, 1.3e-4), "cuda": (15.0, 8e-7)}
"""Seconds for loading and evaluating a batch, and seconds per node evaluation, on two cores and on an H200."""


@dataclass(frozen=True)
class Estimate:
    """Seconds, and what the estimate is based on."""

    seconds: float
    source: str


def estimate(batches: Sequence[Batch], rows: Iterable[StudyRow], device: str, width: int = 1) -> Estimate:
    """Estimate the time of the batches. `width` is the number of batches that run at a time."""
    done = [row for row in rows if row.done and row.total_seconds is not None]
    measured = len({(row.key, row.folder) for row in done})
    seconds = sum(_batch(batch, done, device) for batch in batches) / max(1, min(width, len(batches) or 1))
    if done:
        return Estimate(seconds, f"from the {measured} finished batch{'es' * (measured > 1)} of this study")
    where = "an H200" if device == "cuda" else "two cores"
    return Estimate(
        seconds, f"roughly, from what the bundled LSTM takes on {where}; other models take other times"
    )


def _batch(batch: Batch, done: Sequence[StudyRow], device: str) -> float:
    """From the finished runs most similar to it: of the same cell, else of the same model and search, and so on."""
    for like in _LIKE:
        runs = {
            (row.key, row.folder): (row.total_seconds or 0.0) / max(1, len(row.batch))
            for row in done
            if like(row, batch.cell)
        }
        if runs:
            return len(batch.seeds) * fmean(runs.values())
    fixed, node = _SECONDS.get(device, _SECONDS["cpu"])
    return fixed + len(batch.seeds) * node * _NODES.get(batch.cell.search.name, _NODES["learned"])


_LIKE: tuple[Callable[[StudyRow, Cell], bool], ...] = (
    lambda row, cell: row.key == cell.key,
    lambda row, cell: (row.model, row.search) == (cell.question.model, cell.search.name),
    lambda row, cell: row.search == cell.search.name,
    lambda row, cell: True,
)
