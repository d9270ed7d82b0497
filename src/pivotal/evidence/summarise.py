"""summary.json: what the interventions of a run are worth on held-out pairs."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from pivotal.evidence import CONTROLS
from pivotal.evidence.evaluation import Evaluation, Share, evaluate
from pivotal.problem.objective import KL_TOLERANCE, Terms
from pivotal.problem.problem import Problem, Work
from pivotal.records.intervention import Intervention
from pivotal.searches.base import Discovery, Progress


def summarise(
    found: Discovery,
    train: Problem,
    test: Problem,
    *,
    seed: int,
    work: Work,
    terms: Terms,
    progress: Callable[[Progress], None],
    controls: int = CONTROLS,
    dropped: int = 0,
) -> tuple[dict[str, Any], Evaluation]:
    """Everything but the timings: with the same seed on the same machine it is the same to the last digit. And the
    scores of the best run, which say what became of each pair.

    `terms` are the search's loss, with the bound on KL that it was to keep; `controls` the random sets that the best
    run is compared with; `dropped` the pairs in neither part of the split.
    """
    best = found.best_run
    scores = []
    for r, intervention in enumerate(found.interventions):
        progress(Progress("scoring", r, len(found.interventions), [], [], []))
        compared = controls if r == best else 0
        scores.append(evaluate(intervention, test, train=train, controls=compared, terms=terms, seed=seed))
    runs = [
        _run_row(seed + r, i, s, found.train_score[r], found.stages[r], test)
        for r, (i, s) in enumerate(zip(found.interventions, scores, strict=True))
    ]
    # The lower median: a run that exists, so that its accuracy, units and KL belong together.
    median = sorted(range(len(runs)), key=lambda r: (runs[r]["flip_accuracy"], r))[(len(runs) - 1) // 2]
    example = test.pairs[len(test) // 2]
    summary = {
        "model": test.model.name,
        "phenomenon": test.pairs.name,
        "steps": test.steps,
        "labels": list(test.labels),
        "all_units": len(test.space),
        **{key: runs[median][key] for key in ("flip_accuracy", "interval", "units", "kl", "kl_after_edit")},
        **_bound(terms.max_kl, runs[median]["kl"]),
        "median": median,
        "best": best,
        "forward_nodes": work.forward,
        "backward_nodes": work.backward,
        "clean_accuracy": test.clean_accuracy,
        "labelled": sum(1 for pair in test.pairs if pair.label),
        "pairs": {"train": len(train), "test": len(test), "dropped": dropped},
        "rejected": rejected_row(train, test),
        "controls": dataclasses.asdict(control) if (control := scores[best].control) else {},
        "prevalence": _prevalence(found),
        "example": {
            "prefix": example.prefix,
            "cue": example.cue,
            "words": list(example.words),
            "direction": test.labels[int(test.direction[len(test) // 2])],
        },
        "runs": runs,
    }
    return summary, scores[best]


def _bound(max_kl: float | None, kl: float) -> dict[str, Any]:
    return {} if max_kl is None else {"max_kl": max_kl, "kl_bound_kept": kl <= KL_TOLERANCE * max_kl}


def _run_row(
    seed: int,
    intervention: Intervention,
    scores: Evaluation,
    train_score: float,
    stages: Mapping[str, Any],
    test: Problem,
) -> dict[str, Any]:
    return {
        "seed": seed,
        **scores_row(scores),
        "unit_ids": [test.space.flat(unit) for unit in intervention.units],
        "unit_labels": [str(unit) for unit in intervention.units],
        "unit_numbers": [unit.number for unit in intervention.units],
        "values": {
            direction: [float(v) if on else None for v, on in zip(values, active, strict=True)]
            for direction, values, active in zip(
                intervention.directions, intervention.shown, intervention.active, strict=True
            )
        },
        "train_score": float(train_score),
        "stages": stages,
    }


def scores_row(scores: Evaluation) -> dict[str, Any]:
    """The scores of one intervention as summary.json has them."""
    return {
        "flip_accuracy": scores.flip_accuracy.value,
        "interval": [scores.flip_accuracy.low, scores.flip_accuracy.high],
        "units": scores.units,
        "kl": scores.kl,
        "kl_after_edit": scores.kl_after_edit,
        "by_direction": _shares(scores.by_direction),
        "by_group": _shares(scores.by_group),
        "drop_one": [dataclasses.asdict(one) for one in scores.drop_one],
    }


def _shares(shares: Mapping[str, Share]) -> dict[str, dict[str, Any]]:
    return {name: dataclasses.asdict(share) for name, share in shares.items()}


def _prevalence(found: Discovery) -> dict[str, dict[str, Any]]:
    """In how many runs each unit was found, the most frequent first."""
    units = Counter(unit for intervention in found.interventions for unit in intervention.units)
    ordered = sorted(units.items(), key=lambda item: (-item[1], item[0].number, str(item[0])))
    total = len(found.interventions)
    return {str(u): {"number": u.number, "runs": n, "share": n / total} for u, n in ordered}


def rejected_row(train: Problem, test: Problem) -> dict[str, Any]:
    reasons = train.rejected.reasons + test.rejected.reasons
    return {
        "total": sum(reasons.values()),
        "reasons": dict(sorted(reasons.items(), key=lambda r: (-r[1], r[0]))),
    }
