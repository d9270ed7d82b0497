"""A row of a comparison: what a search found with so many units, on held-out pairs, and what that cost."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pivotal.evidence.evaluation import score_many
from pivotal.problem.objective import KL_TOLERANCE
from pivotal.problem.problem import Problem
from pivotal.records.intervention import Intervention
from pivotal.searches.base import Point, Search

Mode = Literal["converged", "equal"]

CONVERGED: Mode = "converged"
"""Each search as long as its own settings say."""
EQUAL: Mode = "equal"
"""Each search within the same number of node evaluations."""

Key = tuple[Mode, str, int]


def key_of(row: Mapping[str, Any]) -> Key:
    return row["mode"], row["search"], row["size"]


def row_of(
    label: str, mode: Mode, point: Point, search: Search, test: Problem, *, seed: int
) -> tuple[dict[str, Any], list[Intervention]]:
    """The row, and the interventions with their scores on the card."""
    found = point.found
    flipped, kl, kl_after = score_many(found.interventions, test)
    runs: list[dict[str, Any]] = [
        {
            "seed": seed + r,
            "flip_accuracy": float(flipped[r].mean()),
            "units": len(intervention),
            "kl": float(kl[r]),
            "kl_after_edit": float(kl_after[r]),
            "train_score": float(found.train_score[r]),
            "unit_ids": [test.space.flat(unit) for unit in intervention.units],
            "unit_labels": [str(unit) for unit in intervention.units],
            "unit_numbers": [unit.number for unit in intervention.units],
        }
        for r, intervention in enumerate(found.interventions)
    ]
    scored = [
        dataclasses.replace(i, scores={k: run[k] for k in ("flip_accuracy", "kl", "kl_after_edit")})
        for i, run in zip(found.interventions, runs, strict=True)
    ]
    row = {
        "search": label,
        "mode": mode,
        "size": point.size,
        "seeds": [run["seed"] for run in runs],
        "best": found.best_run,
        **{
            name: spread([run[name] for run in runs], found.best_run)
            for name in ("flip_accuracy", "units", "kl", "kl_after_edit")
        },
        **_bound(search.terms.max_kl, [run["kl"] for run in runs]),
        "forward_nodes": point.cost.forward,
        "backward_nodes": point.cost.backward,
        "seconds": round(point.cost.seconds, 3),
        "runs": runs,
    }
    return row, scored


def spread(values: Sequence[int | float], best: int) -> dict[str, int | float | None]:
    """Over the runs; `best` is the value of the best run on training pairs, which need not be the largest."""
    return {
        "mean": statistics.fmean(values),
        "sd": statistics.stdev(values) if len(values) > 1 else None,
        "min": min(values),
        "max": max(values),
        "median": statistics.median(values),
        "best": values[best],
    }


def nodes_of(row: Mapping[str, Any]) -> int:
    return int(row["forward_nodes"] + row["backward_nodes"])


def _bound(max_kl: float | None, kl: Sequence[float]) -> dict[str, Any]:
    if max_kl is None:
        return {}
    return {"max_kl": max_kl, "kl_bound_kept": sum(each <= KL_TOLERANCE * max_kl for each in kl)}
