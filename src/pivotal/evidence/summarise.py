"""The summary of a run: the scores of its interventions on held-out pairs, and the evidence for the best of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pivotal.errors import PivotalError, did_you_mean
from pivotal.evidence import CONTROLS
from pivotal.evidence.checks import (
    dose_response,
    interchange,
    natural_range,
    necessity,
    paths_of,
    turned_away,
)
from pivotal.evidence.controls import overlap_of, random_control, search_permuted, unseen_words
from pivotal.evidence.evaluation import Evaluation, scores_of
from pivotal.evidence.examination import Examination
from pivotal.evidence.knowledge import cue_swap
from pivotal.evidence.redundancy import redundancy
from pivotal.evidence.rivals import rivals_of
from pivotal.evidence.side_effects import Subject, bundled_phenomena, kept_of, text_cost, with_others
from pivotal.evidence.verdict import HALF
from pivotal.problem.batch import Work
from pivotal.problem.kept import Stay
from pivotal.problem.objective import TOLERANCE, Terms
from pivotal.problem.problem import Problem
from pivotal.questions.pairs import PairSet
from pivotal.records.evidence import Evidence, Level
from pivotal.records.run import Progress
from pivotal.records.serial import replace
from pivotal.records.summary import Control, Example, PairCounts, Prevalence, RunScores, Summary
from pivotal.searches.base import Discovery, Search

LEVELS: tuple[Level, ...] = ("none", "quick", "full")


def summarise(
    found: Discovery,
    examinations: Sequence[Examination],
    train: Problem,
    *,
    seed: int,
    work: Work,
    terms: Terms,
    progress: Callable[[Progress], None],
    controls: int = CONTROLS,
    dropped: int = 0,
    merged: int = 0,
    stays: Sequence[Stay] = (),
) -> Summary:
    """The summary without timings and evidence. The same seed gives the same summary on one machine.

    `examinations` are those of the found interventions on the held-out pairs. `terms` is the loss of the search with
    its bounds. `controls` is the number of random sets that the best run is compared with. `dropped` is the number of
    pairs in neither part of the split, and `merged` that of repeated lines in the file. `stays` are the questions
    and texts that the search had to keep.
    """
    best, test = found.best_run, examinations[0].problem
    scores = []
    for r, examination in enumerate(examinations):
        progress(Progress("scoring", r, len(examinations)))
        compared = r == best and controls > 0
        control = random_control(examination, train, controls, terms, seed) if compared else None
        scores.append(scores_of(examination, control, limits=r == best))
    runs = tuple(
        RunScores(
            seed=seed + r,
            **scores_row(scores[r]),
            unit_labels=tuple(str(unit) for unit in intervention.units),
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
    return Summary(
        model=test.model.name,
        phenomenon=test.pairs.name,
        steps=test.steps,
        values=test.values,
        objective=train.objective,
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
        labelled=int((test.whole.expected >= 0).sum()),
        pairs=PairCounts(train=len(train), test=len(test), dropped=dropped, merged=merged),
        overlap=overlap_of(train.pairs, test.pairs),
        rejected=(train.rejected + test.rejected).record(),
        controls=scores[best].control or Control(),
        kept=kept,
        prevalence=_prevalence(found),
        example=_example(examinations[best]),
        runs=runs,
    )


def scores_row(scores: Evaluation) -> dict[str, Any]:
    """The fields of `RunScores` that come from an evaluation."""
    share = scores.flip_accuracy
    same = ("target", "units", "kl", "kl_after_edit", "fidelity", "by_direction", "by_group", "drop_one")
    return {
        "flip_accuracy": share.value,
        "interval": (share.low, share.high),
        **{name: getattr(scores, name) for name in same},
    }


def _prevalence(found: Discovery) -> dict[str, Prevalence]:
    """The number of runs that found each unit, the most frequent unit first."""
    units = Counter(unit for intervention in found.interventions for unit in intervention.units)
    total = len(found.interventions)
    return {str(unit): Prevalence(runs=n, share=n / total) for unit, n in units.most_common()}


def _example(examination: Examination) -> Example:
    test, chosen = examination.problem, examination.typical
    pair, direction = test.pairs[chosen], test.labels[int(test.direction[chosen])]
    before, after = map(float, examination.target[chosen])
    return Example(
        prefix=pair.prefix, cue=pair.cue, words=pair.words, direction=direction, target=(before, after)
    )


# -- evidence ----------------------------------------------------------------------------------------------


def check_level(level: str) -> None:
    """Raise PivotalError if there is no such level."""
    if level not in LEVELS:
        raise PivotalError(
            f"There is no level of evidence {level!r}.{did_you_mean(level, LEVELS)}", "evidence"
        )


def has_level(evidence: Evidence, level: Level) -> bool:
    return LEVELS.index(evidence.level) >= LEVELS.index(level)


@dataclass(frozen=True)
class Collection:
    """What evidence is collected, and for which search."""

    search: Search
    level: Level = "quick"
    seed: int = 0
    others: Sequence[PairSet | Problem] | None = None
    """Other phenomena that are asked with the intervention applied. By default, the bundled ones with full evidence."""
    progress: Callable[[Progress], None] = field(default=lambda _: None)

    def of(
        self, examination: Examination, train: Problem, control: Control, earlier: Evidence | None = None
    ) -> Evidence:
        """The evidence for an intervention that the search found on `train`, mostly from the held-out pairs. `control`
        are the random sets that it was compared with. What `earlier` evidence says about other phenomena is kept."""
        intervention, test = examination.intervention, examination.problem
        if self.level == "none":
            return Evidence(level="none")
        self._say("checks")
        evidence = Evidence(
            level=self.level,
            knowledge=examination.knowledge,
            unseen_words=unseen_words(examination, train, self.search.terms, self.seed),
            away=None if test.values == "interchange" else turned_away(examination),
            natural=None if test.values == "interchange" else natural_range(examination),
            interchange=interchange(examination),
            dose=dose_response(examination),
            paths=paths_of(examination),
            swap=cue_swap(test),
            text=text_cost(intervention, examination.text),
            necessity=necessity(examination, self.seed) if test.pairs.asks_words else None,
            effects=() if earlier is None else earlier.effects,
            unasked=() if earlier is None else earlier.unasked,
        )
        if self.level == "full" or self.others is not None:
            evidence = self.with_others(evidence, examination)
        if self.level == "quick":
            return evidence
        level = HALF if control.best is None else control.best
        further = redundancy(self.search, examination, train, level, self.seed, self.progress)
        evidence = replace(evidence, redundancy=further)
        if train.values != "interchange":  # which has no values that could learn from the labels
            self._say("permuted labels")
            evidence = replace(evidence, permuted=search_permuted(self.search, train, test, self.seed))
        return evidence

    def with_others(self, evidence: Evidence, examination: Examination) -> Evidence:
        """The evidence with the other phenomena that it lacks."""
        self._say("other phenomena")
        others = bundled_phenomena() if self.others is None else self.others
        intervention, problem = examination.intervention, examination.problem
        subject, rivals = Subject.of(problem.pairs), rivals_of(examination, self.seed)
        return with_others(evidence, intervention, problem.model, others, subject, rivals)

    def _say(self, phase: str) -> None:
        self.progress(Progress(phase, 0, 1))
