"""Collect the evidence for an intervention."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from pivotal.errors import PivotalError, did_you_mean
from pivotal.evidence.checks.divergence import divergence_of
from pivotal.evidence.checks.dose import dose_response
from pivotal.evidence.checks.effects import effect_on
from pivotal.evidence.checks.interchange import interchange
from pivotal.evidence.checks.natural import natural_range
from pivotal.evidence.checks.nothing import search_permuted, search_shuffled
from pivotal.evidence.checks.paths import paths_of
from pivotal.evidence.checks.swap import cue_swap
from pivotal.evidence.checks.text import text_cost
from pivotal.evidence.knowledge import knowledge_of
from pivotal.models.base import LanguageModel
from pivotal.problem.examples import Examples
from pivotal.problem.problem import Problem
from pivotal.questions.pairs import PairSet
from pivotal.questions.phenomena import load_phenomenon, phenomenon_names
from pivotal.questions.question import names_of
from pivotal.records.evidence import Effect, Evidence, Level
from pivotal.records.intervention import Intervention
from pivotal.records.run import Progress
from pivotal.records.serial import replace
from pivotal.searches.base import Search

LEVELS: tuple[Level, ...] = ("none", "quick", "full")


@dataclass(frozen=True)
class Collection:
    """What evidence is collected, and for which search."""

    search: Search
    level: Level = "quick"
    seed: int = 0
    others: Sequence[PairSet | Examples] | None = None
    """Other phenomena that are asked with the intervention applied. By default, the bundled ones with full evidence."""
    progress: Callable[[Progress], None] = field(default=lambda _: None)

    def of(
        self, intervention: Intervention, train: Problem, test: Problem, there: Evidence | None = None
    ) -> Evidence:
        """The evidence for an intervention that the search found on `train`, mostly from the held-out pairs. What
        `there` says about other phenomena is kept."""
        if self.level == "none":
            return Evidence(level="none")
        self._say("checks", 0)
        evidence = Evidence(
            level=self.level,
            knowledge=knowledge_of(test),
            natural=None if test.values == "interchange" else natural_range(intervention, test),
            interchange=interchange(intervention, test),
            dose=dose_response(intervention, test),
            paths=paths_of(intervention, test),
            divergence=divergence_of(intervention, test),
            swap=cue_swap(test),
            text=text_cost(intervention, test.model),
            effects=() if there is None else there.effects,
            unasked=() if there is None else there.unasked,
        )
        if self.level == "full" or self.others is not None:
            evidence = self.with_others(evidence, intervention, test.model)
        if self.level == "quick":
            return evidence
        permuted = None
        if train.values != "interchange":  # which has no values that could learn from the labels
            self._say("permuted labels", 0)
            permuted = search_permuted(self.search, train, test, repeats=1, seed=self.seed)
        self._say("shuffled weights", 0)
        shuffled = search_shuffled(self.search, train, test, repeats=1, seed=self.seed)
        return replace(evidence, permuted=permuted, shuffled=shuffled)

    def with_others(self, evidence: Evidence, intervention: Intervention, model: LanguageModel) -> Evidence:
        """The evidence with the other phenomena that it lacks, in the order in which they are asked."""
        self._say("other phenomena", 0)
        others = list(bundled_phenomena() if self.others is None else self.others)
        names = [pairs.name for pairs in others]
        lacking = set(unanswered(evidence, intervention.phenomenon, names))
        found = list(
            effects_on_others(intervention, model, [pairs for pairs in others if pairs.name in lacking])
        )
        place = {name: i for i, name in enumerate(names)}
        effects = sorted((*evidence.effects, *found), key=lambda one: place.get(one.phenomenon, len(place)))
        asked = {effect.phenomenon for effect in found}
        unasked = (*evidence.unasked, *(name for name in names if name in lacking - asked))
        return replace(evidence, effects=tuple(effects), unasked=unasked)

    def _say(self, phase: str, step: int) -> None:
        self.progress(Progress(phase, step, 1))


def bundled_phenomena() -> Iterable[PairSet]:
    """The pairs of every phenomenon that needs no file."""
    return (load_phenomenon(name) for name in phenomenon_names() if not name.endswith(":"))


def check_level(level: str) -> None:
    """Raise PivotalError if there is no such level."""
    if level not in LEVELS:
        raise PivotalError(
            f"There is no level of evidence {level!r}.{did_you_mean(level, LEVELS)}", "evidence"
        )


def has_level(evidence: Evidence, level: Level) -> bool:
    return LEVELS.index(evidence.level) >= LEVELS.index(level)


def unanswered(evidence: Evidence, own: str, names: Iterable[str]) -> list[str]:
    """The phenomena of which the evidence for an intervention says nothing. `own` is the one that it was found for, of
    which nothing needs to be said."""
    answered = {own, *names_of(own), *evidence.unasked, *(effect.phenomenon for effect in evidence.effects)}
    return [name for name in names if name not in answered]


def effects_on_others(
    intervention: Intervention, model: LanguageModel, others: Iterable[PairSet | Examples]
) -> Iterable[Effect]:
    """The effects on phenomena other than the intervention's own. One that the model cannot be asked is left out."""
    own = (intervention.phenomenon, *names_of(intervention.phenomenon))
    for pairs in others:
        if pairs.name in own:
            continue
        try:
            yield effect_on(intervention, model, pairs)
        except PivotalError:  # no pair of it can be asked
            continue
