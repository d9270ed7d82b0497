"""Scores of an intervention on held-out pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pivotal.errors import PivotalError
from pivotal.evidence.controls import random_control
from pivotal.evidence.examination import Examination, score_many
from pivotal.evidence.fidelity import fidelity_of
from pivotal.printing import counted
from pivotal.problem.objective import Terms
from pivotal.problem.problem import Problem
from pivotal.records import serial
from pivotal.records.evidence import Share
from pivotal.records.frame import to_frame
from pivotal.records.intervention import Intervention, given_intervention
from pivotal.records.summary import Control, DropOne, Fidelity
from pivotal.records.traces import PairOutcome

_DROPPED = 128
"""The prefixes on which units are dropped one by one."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The scores of an intervention on the pairs of a problem."""

    flip_accuracy: Share
    by_direction: dict[str, Share]
    by_group: dict[str, Share]
    target: tuple[float, float]
    """The median probability of the target word among the two words of a pair, untouched and edited."""
    units: int
    kl: float
    """KL averaged over all positions of a sentence, then over the sentences, as in the paper."""
    kl_after_edit: float
    """KL averaged over the positions from the first edited step."""
    clean_accuracy: float | None
    fidelity: Fidelity | None = None
    """How near the edited model comes to the counterfactual; None without counterfactual prefixes."""
    drop_one: tuple[DropOne, ...] = ()
    control: Control | None = None
    outcomes: tuple[PairOutcome, ...] = ()
    """The outcome of each pair, in the order of the problem's pairs."""

    def as_dict(self) -> dict[str, Any]:
        """The scores as plain data, in the format of summary.json."""
        return serial.plain(self)

    def to_frame(self) -> Any:
        """A data frame with a row for each pair: its sentence, the log-odds of the target word untouched and edited,
        and whether the preference flipped."""
        return to_frame([outcome.as_row() for outcome in self.outcomes])

    def __repr__(self) -> str:
        flips, units = self.flip_accuracy, counted(self.units, "unit")
        return f"Evaluation({flips} of {flips.n:,} preferences flipped, {units}, KL {self.kl:.3f})"

    def _repr_html_(self) -> str:
        from pivotal.report.notebook import evaluation_html

        return evaluation_html(self)

    def plot(self) -> Any:
        """An altair chart of the flipped preferences by construction and direction."""
        from pivotal.report.notebook import plot_shares

        return plot_shares(self)


def evaluate(
    intervention: Intervention,
    problem: Problem,
    *,
    train: Problem | None = None,
    controls: int = 0,
    terms: Terms | None = None,
    seed: int = 0,
    any_model: bool = False,
) -> Evaluation:
    """Score an intervention on the pairs of a problem.

    `controls` is the number of random sets with as many units that it is compared with. Their values are fitted on
    `train` with the loss `terms` (normally the `terms` of the search), or for flips alone if there is no bound.
    """
    problem = check_question(intervention, problem, any_model=any_model)
    examination = Examination(intervention, problem)
    if not controls:
        return scores_of(examination)
    if train is None:
        raise PivotalError(
            "Random controls fit their values on training pairs, but train is None. Pass them as train=."
        )
    return scores_of(examination, random_control(examination, train, controls, terms or Terms(), seed))


def scores_of(examination: Examination, control: Control | None = None, *, limits: bool = True) -> Evaluation:
    """The scores of an examined intervention. `limits` adds the floor and the ceiling of its fidelity."""
    problem, share, flipped = examination.problem, examination.share, examination.flipped
    target = np.median(examination.target, axis=0)
    return Evaluation(
        flip_accuracy=share(flipped),
        by_direction=examination.by_direction(flipped),
        by_group={
            group: share(flipped, np.array([pair.group == group for pair in problem.pairs]))
            for group in problem.pairs.groups
        },
        target=(float(target[0]), float(target[1])),
        units=len(examination.intervention),
        kl=examination.kl,
        kl_after_edit=examination.kl_after_edit,
        clean_accuracy=problem.clean_accuracy,
        fidelity=fidelity_of(examination, limits=limits),
        drop_one=_drop_one(examination),
        control=control,
        outcomes=examination.outcomes,
    )


def check_question(intervention: Intervention, problem: object, *, any_model: bool = False) -> Problem:
    """The problem. Raises PivotalError if there is none, or if the model, the labels, their order (which identifies the
    values) or the steps differ."""
    if not isinstance(problem, Problem):
        raise PivotalError(
            "An intervention is evaluated on a Problem, such as pivotal.Problem(model, pairs), but this is "
            f"{str(problem)[:60]!r}. pivotal.transfer(intervention, model, question) takes any question."
        )
    model = problem.model
    given_intervention(intervention).check_model(model.name, model.fingerprint(), any_model=any_model)
    if intervention.directions != problem.labels:
        raise PivotalError(
            f"This intervention flips to {' or '.join(intervention.directions)}, but the pairs are labelled "
            f"{' and '.join(problem.labels)}. Use pairs with the same two labels in the same order."
        )
    if intervention.steps != problem.steps:
        raise PivotalError(
            f"This intervention acts at steps={intervention.steps!r}, but the problem is about "
            f"steps={problem.steps!r}. Make the problem with the steps of the intervention."
        )
    return problem


def _drop_one(examination: Examination) -> tuple[DropOne, ...]:
    """The scores without each unit: what it adds on a sample of the prefixes, taken from the scores on all."""
    intervention, part = examination.intervention, examination.sample(_DROPPED)
    if len(intervention) == 1:
        return ()
    flipped, kl = score_many([intervention.without(i) for i in range(len(intervention))], part.problem)
    shares = (flipped.mean(1) + examination.flipped.mean() - part.flipped.mean()).clip(0, 1)
    return tuple(
        DropOne(str(unit), float(f), float(k))
        for unit, f, k in zip(intervention.units, shares, kl, strict=True)
    )
