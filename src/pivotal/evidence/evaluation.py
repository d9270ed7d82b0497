"""Scores of an intervention on held-out pairs, and what they are compared with: random sets, and unseen words."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.evidence.examination import Examination, costs_of, flips_of, score_many
from pivotal.evidence.intervals import share_of
from pivotal.evidence.verdict import LEAST_UNSEEN
from pivotal.problem.objective import TOLERANCE, Terms
from pivotal.problem.problem import Problem
from pivotal.questions.pairs import PairSet
from pivotal.questions.splits import Lexemes, shuffled_ranks
from pivotal.records import serial
from pivotal.records.evidence import Share
from pivotal.records.intervention import Intervention
from pivotal.records.summary import Control, DropOne, Overlap, UnseenWords
from pivotal.records.traces import PairOutcome
from pivotal.searches.tools.refit import Refit

_TOGETHER = 50
"""The most random sets whose values are fitted together on a CPU."""
_PREFIXES = 200
"""The held-out prefixes on which the sets are compared."""
_BEYOND = 4.0
"""The start beyond the mean activation under the other label, as a multiple of the way there."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The scores of an intervention on the pairs of a problem."""

    flip_accuracy: Share
    by_direction: dict[str, Share]
    by_group: dict[str, Share]
    units: int
    kl: float
    """KL averaged over all positions of a sentence, then over the sentences, as in the paper."""
    kl_after_edit: float
    """KL averaged over the positions from the first edited step."""
    clean_accuracy: float | None
    drop_one: tuple[DropOne, ...] = ()
    control: Control | None = None
    outcomes: tuple[PairOutcome, ...] = ()
    """The outcome of each pair, in the order of the problem's pairs."""

    def as_dict(self) -> dict[str, Any]:
        """The scores as plain data, in the format of summary.json."""
        return serial.plain(self)

    def __repr__(self) -> str:
        units = "1 unit" if self.units == 1 else f"{self.units:,} units"
        return (
            f"Evaluation({self.flip_accuracy} of {self.flip_accuracy.n:,} preferences flipped, {units}, "
            f"KL {self.kl:.3f})"
        )

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
    intervention.check_model(problem.model.name, problem.model.fingerprint(), any_model=any_model)
    check_question(intervention, problem)
    examination = Examination(intervention, problem)
    if not controls:
        return scores_of(examination)
    if train is None:
        raise PivotalError(
            "Random controls fit their values on training pairs, but train is None. Pass them as train=."
        )
    return scores_of(examination, random_control(examination, train, controls, terms or Terms(), seed))


def scores_of(examination: Examination, control: Control | None = None) -> Evaluation:
    """The scores of an examined intervention."""
    problem, share, flipped = examination.problem, examination.share, examination.flipped
    return Evaluation(
        flip_accuracy=share(flipped),
        by_direction=examination.by_direction(flipped),
        by_group={
            group: share(flipped, np.array([pair.group == group for pair in problem.pairs]))
            for group in problem.pairs.groups
        },
        units=len(examination.intervention),
        kl=examination.kl,
        kl_after_edit=examination.kl_after_edit,
        clean_accuracy=problem.clean_accuracy,
        drop_one=_drop_one(examination.intervention, problem),
        control=control,
        outcomes=examination.outcomes,
    )


def check_question(intervention: Intervention, problem: Problem) -> None:
    """Raise PivotalError if the labels, their order (which identifies the values) or the steps differ."""
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


def _drop_one(intervention: Intervention, problem: Problem) -> tuple[DropOne, ...]:
    if len(intervention) == 1:
        return ()
    flipped, kl = score_many([intervention.without(i) for i in range(len(intervention))], problem)
    return tuple(
        DropOne(str(unit), unit.number, float(f.mean()), float(k))
        for unit, f, k in zip(intervention.units, flipped, kl, strict=True)
    )


# -- random sets -------------------------------------------------------------------------------------------


def random_control(
    examination: Examination,
    train: Problem,
    sets: int,
    terms: Terms,
    seed: int,
    *,
    accuracy: float | None = None,
    excess: float | None = None,
) -> Control:
    """Compare the found set with random sets that have as many units in each site. p is the share of sets that do at
    least as well, including the found set.

    `accuracy` is the share of flips of the found set and `excess` its largest cost as a multiple of the bound on it, by
    default measured here. If the found set keeps its bounds, a random set that exceeds one does not do as well.
    Otherwise the values of the random sets are fitted for flips alone, which makes them harder to beat.
    """
    part = examination.problem.sample(_PREFIXES, seed)
    if accuracy is None:
        # In double precision, as below: a set that flips exactly as many must count.
        accuracy = float(examination.sample(_PREFIXES, seed).flipped.mean())
    mask = matched_sets(examination.intervention, part, sets, seed)
    # What must stay is part of the training problem only.
    judges = part if train.kept is None else train.sample(_PREFIXES, seed)

    def excess_of(mask: Tensor, values: Tensor) -> np.ndarray:
        return terms.excess(judges, costs_of(mask, values, judges, terms)).cpu().numpy()

    if excess is None and terms.bounded:
        excess = float(excess_of(*examination.edit)[0])
    bounded = terms.bounded and excess is not None and excess <= TOLERANCE
    # Few large steps on few prefixes flip as much as many small steps, at a fifth of the cost.
    if bounded:
        refit = Refit(terms=terms, updates=16, rate=0.2, batch=16, looks=4)
    else:
        flips = replace(terms, kl_weight=0.0, max_kl=None, max_change=None)
        refit = Refit(terms=flips, updates=8, rate=0.5, batch=8, looks=1)
    shares, broken = np.zeros(sets), np.zeros(sets, dtype=bool)
    at_once = _TOGETHER if mask.device.type == "cpu" else sets
    for some in torch.arange(sets, device=mask.device).split(at_once):
        values = refit.fit(train, mask[some], seed=seed).values
        which = some.cpu().numpy()  # numpy treats a tensor with one element as a number
        shares[which] = flips_of(mask[some], values, part).mean(1)
        if bounded:
            broken[which] = excess_of(mask[some], values) > TOLERANCE
    return Control(
        sets=sets,
        flip_accuracy=[float(s) for s in shares],
        mean=float(shares.mean()),
        best=float(shares.max()),
        p_value=float((1 + ((shares >= accuracy) & ~broken).sum()) / (1 + sets)),
        broken=int(broken.sum()),
    )


def matched_sets(
    intervention: Intervention, problem: Problem, sets: int, seed: int
) -> Float[Tensor, "sets directions units"]:
    """Masks of random sets. Each unit of the intervention is replaced by a random unit of its site."""
    rng, space = np.random.default_rng(seed), problem.space
    mask = torch.zeros(sets, len(problem.labels), len(space))
    active = torch.tensor(intervention.active).float()
    for name in dict.fromkeys(unit.site for unit in intervention.units):
        here = [i for i, unit in enumerate(intervention.units) if unit.site == name]
        units = np.arange(len(space))[space.slice_of(name)]
        for row in mask:
            drawn = rng.choice(units, len(here), replace=False)
            row[:, drawn] = active[:, here]
    return mask.to(problem.model.device)


# -- unseen words ------------------------------------------------------------------------------------------


def overlap_of(train: PairSet, test: PairSet) -> Overlap:
    """The shares of held-out pairs whose prefix, cue word or words occur in training."""
    prefixes = {pair.prefix for pair in train}
    having = [pair for pair in test if pair.cue is not None]
    cues = {pair.cue_word.lower() for pair in train}
    words = {word.lower() for pair in train for word in pair.words}

    def share(found: list[bool]) -> float:
        return sum(found) / max(1, len(found))

    return Overlap(
        prefix=share([pair.prefix in prefixes for pair in test]),
        cue=share([pair.cue_word.lower() in cues for pair in having]) if having else None,
        words=share([any(word.lower() in words for word in pair.words) for pair in test]),
    )


def unseen_words(examination: Examination, train: Problem, terms: Terms, seed: int) -> UnseenWords | None:
    """The score of the units on unseen words, with values learned without these words (see `UnseenWords`).

    None if the words do not vary, if too few pairs have only unseen words or only others, if one label is unseen as a
    whole (a cue with one form for each label), or if an interchange leaves no values to learn.
    """
    test = examination.problem
    if train.values == "interchange":
        return None
    both = PairSet(train.pairs.name, train.labels, (*train.pairs, *test.pairs)).lexemes()
    ranks = shuffled_ranks(both, random.Random(seed))
    unseen = {
        slot: {lemma for lemma, r in rank.items() if r < len(rank) // 2} for slot, rank in ranks.items()
    }

    def having(items: list[Lexemes], inside: bool) -> np.ndarray:
        """The items whose lemmas are all unseen, or all seen."""
        asked = [[lemma in unseen[slot] for slot, lemma in item if slot in unseen] for item in items]
        return np.flatnonzero([bool(lemmas) and all(lemma is inside for lemma in lemmas) for lemmas in asked])

    learned, scored = having(both[: len(train)], False), having(both[len(train) :], True)
    groups = {train.pairs[i].group for i in learned.tolist()}  # a construction must not be unseen as a whole
    scored = np.array([i for i in scored.tolist() if test.pairs[i].group in groups], dtype=np.int64)
    if any(
        len(np.unique(problem.prefix_ids[some])) < LEAST_UNSEEN
        for problem, some in ((train, learned), (test, scored))
    ):
        return None
    if not set(test.direction[scored].tolist()) <= set(train.direction[learned].tolist()):
        return None  # the values of a direction would be scored that no pair has trained
    mask, _ = examination.edit
    values = _learn_again(train.restrict(learned), mask, terms, seed)
    part = test.restrict(scored)
    (flipped,) = flips_of(mask, values, part)
    return UnseenWords(
        flip_accuracy=share_of(flipped, part.prefix_ids), slots=tuple(sorted(unseen)), train=len(learned)
    )


def _learn_again(
    problem: Problem, mask: Float[Tensor, "1 directions units"], terms: Terms, seed: int
) -> Float[Tensor, "1 directions coordinates"]:
    """Values for the pairs of a problem, from several starts: the best on these pairs.

    From the mean activation alone, a fit may get stuck: on the way to its final value, a unit may first make the loss
    larger. Directions that move several units at once often do.
    """
    found, standard = problem.measure_activations(), problem.standard()
    beyond = found.own + _BEYOND * (found.target - found.own)
    starts = torch.stack((standard.values(torch.zeros_like(found.own)), found.target, beyond))
    refit = Refit(terms, updates=40, rate=0.1, batch=32, looks=4)
    fitted = refit.fit(problem, mask.expand(len(starts), -1, -1), starts, seed=seed)
    best = int(fitted.score.argmin())
    return fitted.values[best : best + 1]
