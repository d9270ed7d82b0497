"""What held-out pairs share with training pairs, and how the units do on words that their values never saw."""

from __future__ import annotations

import random

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.evidence.intervals import share_of
from pivotal.evidence.scores import score_masks
from pivotal.evidence.verdict import LEAST_UNSEEN
from pivotal.models.edits import dense
from pivotal.problem.objective import Terms
from pivotal.problem.problem import Problem
from pivotal.questions.pairs import PairSet
from pivotal.questions.splits import Lexemes, shuffled_ranks
from pivotal.records.intervention import Intervention
from pivotal.records.summary import Overlap, UnseenWords
from pivotal.searches.tools.refit import Refit

_BEYOND = 4.0
"""The start beyond the mean activation under the other label, as a multiple of the way there."""


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


def unseen_words(
    intervention: Intervention, train: Problem, test: Problem, terms: Terms, seed: int
) -> UnseenWords | None:
    """The score of the units on unseen words, with values learned without these words (see `UnseenWords`).

    None if the words do not vary, if too few pairs have only unseen words or only others, if one label is unseen as a
    whole (a cue with one form for each label), or if an interchange leaves no values to learn.
    """
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
        return np.flatnonzero([bool(found) and all(one is inside for one in found) for found in asked])

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
    mask, _ = dense(intervention, train.space, train.model.device)
    values = _learn_again(train.restrict(learned), mask, terms, seed)
    part = test.restrict(scored)
    flipped, _, _ = score_masks(mask, values, part, kl=False)
    return UnseenWords(
        flip_accuracy=share_of(flipped[0], part.prefix_ids), slots=tuple(sorted(unseen)), train=len(learned)
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
