"""Make the summary of a run: the scores of its interventions on held-out pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from pivotal.evidence import CONTROLS
from pivotal.evidence.evaluation import Evaluation, evaluate
from pivotal.evidence.kept import kept_of
from pivotal.evidence.overlap import overlap_of, unseen_words
from pivotal.problem.batch import Work
from pivotal.problem.kept import Stay
from pivotal.problem.objective import TOLERANCE, Terms
from pivotal.problem.problem import Problem
from pivotal.records.summary import Control, Example, PairCounts, Prevalence, Rejections, RunScores, Summary
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
    merged: int = 0,
    stays: Sequence[Stay] = (),
) -> tuple[Summary, Evaluation]:
    """The summary without timings, and the scores of the best run. The same seed gives the same summary on one machine.

    `terms` is the loss of the search with its bounds. `controls` is the number of random sets that the best run is
    compared with. `dropped` is the number of pairs in neither part of the split, and `merged` that of repeated lines in
    the file. `stays` are the questions and texts that the search had to keep.
    """
    best = found.best_run
    scores = []
    for r, intervention in enumerate(found.interventions):
        progress(Progress("scoring", r, len(found.interventions)))
        compared = controls if r == best else 0
        scores.append(evaluate(intervention, test, train=train, controls=compared, terms=terms, seed=seed))
    runs = tuple(
        RunScores(
            seed=seed + r,
            **scores_row(scores[r]),
            unit_ids=tuple(test.space.flat(unit) for unit in intervention.units),
            unit_labels=tuple(str(unit) for unit in intervention.units),
            unit_numbers=tuple(unit.number for unit in intervention.units),
            values=intervention.shown_values,
            train_score=float(found.train_score[r]),
            stages=found.stages[r],
        )
        for r, intervention in enumerate(found.interventions)
    )
    # The lower median is an existing run, so its accuracy, units and KL belong together.
    median = sorted(range(len(runs)), key=lambda r: (runs[r].flip_accuracy, r))[(len(runs) - 1) // 2]
    handed = runs[best]
    kept = kept_of(found.best, train, stays, terms)
    bounded = handed.kl if kept is None or kept.kl is None else kept.kl
    summary = Summary(
        model=test.model.name,
        phenomenon=test.pairs.name,
        steps=test.steps,
        values=test.values,
        labels=test.labels,
        all_units=len(test.space),
        flip_accuracy=handed.flip_accuracy,
        interval=handed.interval,
        units=handed.units,
        kl=handed.kl,
        kl_after_edit=handed.kl_after_edit,
        max_kl=terms.max_kl,
        kl_bound_kept=None if terms.max_kl is None else bool(bounded <= TOLERANCE * terms.max_kl),
        median=median,
        best=best,
        forward_nodes=work.forward,
        backward_nodes=work.backward,
        clean_accuracy=test.clean_accuracy,
        labelled=sum(1 for pair in test.whole.pairs if pair.label),
        pairs=PairCounts(train=len(train), test=len(test), dropped=dropped, merged=merged),
        overlap=overlap_of(train.pairs, test.pairs),
        unseen_words=unseen_words(found.best, train, test, terms, seed),
        rejected=rejections(train, test),
        controls=scores[best].control or Control(),
        kept=kept,
        prevalence=_prevalence(found),
        example=_example(test),
        runs=runs,
    )
    return summary, scores[best]


def scores_row(scores: Evaluation) -> dict[str, Any]:
    """The fields of `RunScores` that come from an evaluation."""
    return {
        "flip_accuracy": scores.flip_accuracy.value,
        "interval": (scores.flip_accuracy.low, scores.flip_accuracy.high),
        "units": scores.units,
        "kl": scores.kl,
        "kl_after_edit": scores.kl_after_edit,
        "by_direction": scores.by_direction,
        "by_group": scores.by_group,
        "drop_one": scores.drop_one,
    }


def _prevalence(found: Discovery) -> dict[str, Prevalence]:
    """The number of runs that found each unit, the most frequent unit first."""
    units = Counter(unit for intervention in found.interventions for unit in intervention.units)
    ordered = sorted(units.items(), key=lambda item: (-item[1], item[0].number, str(item[0])))
    total = len(found.interventions)
    return {str(u): Prevalence(number=u.number, runs=n, share=n / total) for u, n in ordered}


def _example(test: Problem) -> Example:
    middle = len(test) // 2
    pair = test.pairs[middle]
    direction = test.labels[int(test.direction[middle])]
    return Example(prefix=pair.prefix, cue=pair.cue, words=pair.words, direction=direction)


def rejections(train: Problem, test: Problem) -> Rejections:
    reasons = train.rejected.reasons + test.rejected.reasons
    return Rejections(
        total=sum(reasons.values()), reasons=dict(sorted(reasons.items(), key=lambda r: (-r[1], r[0])))
    )
