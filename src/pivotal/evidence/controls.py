"""What the scores of an intervention are compared with: random sets, unseen words, and searches where there is nothing
to find."""

from __future__ import annotations

import dataclasses
import json
import random
from functools import cache

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.evidence.examination import Examination, costs_of, flips_of, score_many
from pivotal.evidence.intervals import shares_of
from pivotal.evidence.verdict import LEAST_UNSEEN
from pivotal.files import asset
from pivotal.models.edits import spread, touched
from pivotal.problem.bases import BASES
from pivotal.problem.objective import TOLERANCE, Terms
from pivotal.problem.problem import Problem
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.questions.splits import Lexemes, shuffled_ranks
from pivotal.records.evidence import NullSearch, UnseenWords
from pivotal.records.intervention import Intervention
from pivotal.records.summary import Control, Overlap
from pivotal.searches.base import Search
from pivotal.searches.tools.refit import Refit
from pivotal.searches.tools.trials import alone, ends_of, grid_of
from pivotal.units import Unit

_PREFIXES, _FEW = 64, 16
"""The held-out prefixes on which the sets are compared, and those on which all random sets are scored first."""
_TOGETHER = 50
"""The most random sets whose values are fitted together on a CPU."""
_BEST, _BEHIND = 8, 0.25
"""Of the random sets, the leading eighth is scored on all prefixes, and so is every set that is less than 25 points
behind the found one."""
_ROUNDS, _GAIN = 10, 0.005
"""The best eighth is fitted in rounds, as long as a round adds more than half a point to its flips."""
_BATCH, _POSITIONS = 32, 64
"""The prefixes of an update of values for unseen words, and the positions of KL at which they are scored."""
_SEED = 7_919
"""Added to the seed of the run, so that the permutation does not repeat the split's random numbers."""


# -- random sets -------------------------------------------------------------------------------------------


def random_control(examination: Examination, train: Problem, sets: int, terms: Terms, seed: int) -> Control:
    """Compare the found set with random sets that have as many units in each site. p is the share of sets that do at
    least as well, including the found set.

    If the found set keeps its bounds, a random set that exceeds one does not do as well. Otherwise the values of the
    random sets are fitted for flips alone, which makes them harder to beat.
    """
    examined = examination.sample(_PREFIXES, seed)
    part = examined.problem
    accuracy = float(examined.flipped.mean())  # in double precision: a set that flips as many must count
    mask = matched_sets(examination.intervention, part, sets, seed)
    # What must stay is part of the training problem only.
    judges = part if train.kept is None else train.sample(_PREFIXES, seed)

    def excess_of(mask: Tensor, values: Tensor) -> np.ndarray:
        return terms.excess(judges, costs_of(mask, values, judges, terms)).cpu().numpy()

    broken, gained = np.zeros(sets, dtype=bool), None
    if terms.bounded and excess_of(*examination.edit)[0] <= TOLERANCE:
        refit = Refit(terms=terms, updates=16, rate=0.2, batch=16, looks=4)
        values = torch.cat([refit.fit(train, some, seed=seed).values for some in _together(mask)])
        shares, broken = flips_of(mask, values, part).mean(1), excess_of(mask, values) > TOLERANCE
    else:
        shares, gained = _fitted_for_flips(mask, train, part, accuracy, terms, seed)
    return Control(
        sets=sets,
        flip_accuracy=[float(s) for s in shares],
        mean=float(shares.mean()),
        best=float(shares.max()),
        p_value=float((1 + ((shares >= accuracy) & ~broken).sum()) / (1 + sets)),
        broken=int(broken.sum()),
        gained=gained,
    )


def _fitted_for_flips(
    mask: Float[Tensor, "sets directions units"],
    train: Problem,
    part: Problem,
    accuracy: float,
    terms: Terms,
    seed: int,
) -> tuple[np.ndarray, float]:
    """The flips of random sets on `part`, and the most that the last round of fitting added to the flips of a set.

    Each unit starts at the end of its range with the larger first-order gain, where most fits end. Sets that are far
    behind `accuracy` and behind other sets on a few prefixes are scored on these alone. The sets that flip most are
    fitted until they stop improving.
    """
    flips = dataclasses.replace(terms, kl_weight=0.0, max_kl=None, max_change=None)
    refit = Refit(terms=flips, updates=2, rate=0.3, batch=8, looks=1)
    ends = ends_of(grid_of(train, points=3))
    values = _better_ends(train.sample(_PREFIXES, seed), flips, mask, ends) * spread(part.space, mask)
    shares = flips_of(mask, values, part.sample(_FEW, seed)).mean(1)
    most = -(-len(mask) // _BEST)
    close = np.argsort(-shares, kind="stable")[: max(most, int((shares >= accuracy - _BEHIND).sum()))]
    shares[close] = flips_of(mask[close], values[close], part).mean(1)
    race = close[np.argsort(-shares[close], kind="stable")][:most]
    gain = np.zeros(1)
    for number in range(_ROUNDS):
        some = zip(_together(mask[race]), _together(values[race]), strict=True)
        fitted = torch.cat([refit.fit(train, *each, seed=seed + number).values for each in some])
        moved = (fitted != values[race]).flatten(1).any(1).cpu().numpy()
        values[race] = fitted
        race, gain = race[moved], np.zeros(1)
        if len(race):
            now = flips_of(mask[race], values[race], part).mean(1)
            gain = now - shares[race]
            shares[race] = np.maximum(now, shares[race])
            race = race[gain > _GAIN]
        if not len(race):
            break
    return shares, max(0.0, float(gain.max()))


def _better_ends(
    sample: Problem, terms: Terms, mask: Tensor, ends: tuple[Tensor, Tensor] | None = None
) -> Float[Tensor, "directions coordinates"]:
    """For each direction and each unit of the masked sites, the end of its range with the larger first-order gain."""
    return alone(sample, terms, ends, sample.space.sites.index(touched(sample.space, mask)[0]))[1]


def _together(sets: Tensor) -> tuple[Tensor, ...]:
    return sets.split(_TOGETHER if sets.device.type == "cpu" else len(sets))


def matched_sets(
    intervention: Intervention, problem: Problem, sets: int, seed: int
) -> Float[Tensor, "sets directions units"]:
    """Masks of random sets. Each unit of the intervention is replaced by a random unit of its site, but by none of the
    intervention's own, if the site has enough others, and by none that is known for a feature of the question."""
    rng, space = np.random.default_rng(seed), problem.space
    mask = torch.zeros(sets, len(problem.labels), len(space))
    active, known = torch.tensor(intervention.active).float(), known_units(problem)
    for name in dict.fromkeys(unit.site for unit in intervention.units):
        here = [i for i, unit in enumerate(intervention.units) if unit.site == name]
        units = np.arange(len(space))[space.slice_of(name)]
        others = np.setdiff1d(units, [space.flat(intervention.units[i]) for i in here])
        unknown = np.setdiff1d(others, known)
        pool = next((some for some in (unknown, others) if len(some) >= len(here)), units)
        for row in mask:
            row[:, rng.choice(pool, len(here), replace=False)] = active[:, here]
    return mask.to(problem.model.device)


def known_units(problem: Problem) -> list[int]:
    """The flat ids of the model's units that flip most preferences about a feature of the question in the atlas. They
    are stored by the digest of weights and words in the model's fingerprint, which does not depend on its start."""
    by_feature = _known_units().get(problem.model.fingerprint().partition("+")[0], {})
    sites = {site.name for site in problem.space.sites}
    return [
        problem.space.flat(Unit(site, index))
        for feature in problem.pairs.features
        for site, indices in by_feature.get(feature, {}).items()
        if site in sites
        for index in indices
    ]


@cache
def _known_units() -> dict[str, dict[str, dict[str, list[int]]]]:
    found: dict[str, dict[str, dict[str, list[int]]]] = json.loads(asset("known_units.json").read_text())
    return found


# -- unseen words ------------------------------------------------------------------------------------------


def overlap_of(train: PairSet, test: PairSet) -> Overlap:
    """The shares of held-out pairs whose prefix, cue word or words occur in training."""
    prefixes = {pair.prefix for pair in train}
    having = [pair for pair in test if pair.cue is not None]
    cues = {pair.cue_word.lower() for pair in train}
    words = {word.lower() for pair in train for side in pair.word_sets for word in side if word}

    def share(found: list[bool]) -> float:
        return sum(found) / max(1, len(found))

    return Overlap(
        prefix=share([pair.prefix in prefixes for pair in test]),
        cue=share([pair.cue_word.lower() in cues for pair in having]) if having else None,
        words=share([any(w.lower() in words for side in pair.word_sets for w in side) for pair in test]),
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
        flip_accuracy=shares_of(part.pairs)(flipped), slots=tuple(sorted(unseen)), train=len(learned)
    )


def _learn_again(
    problem: Problem, mask: Float[Tensor, "1 directions units"], terms: Terms, seed: int
) -> Float[Tensor, "1 directions coordinates"]:
    """Values for the pairs of a problem, from two starts: the best on these pairs.

    From one start, a fit may get stuck: on the way to its final value, a unit may first make the loss larger.
    Directions that move several units at once often do.
    """
    sample = problem.sample(2 * _BATCH, seed)
    starts = torch.stack((_better_ends(sample, terms, mask), sample.measure_activations().target))
    refit = Refit(terms, updates=6, rate=0.1, batch=_BATCH, looks=1, positions=_POSITIONS)
    fitted = refit.fit(problem, mask.expand(len(starts), -1, -1), starts, seed=seed)
    best = int(fitted.score.argmin())
    return fitted.values[best : best + 1]


# -- the same search where there is nothing to find --------------------------------------------------------


def permuted(pairs: PairSet, seed: int = 0) -> PairSet:
    """Exchange the two words of a random half of the prefixes. What a label means then depends on the sentence, so no
    unit can carry it. Pairs of one prefix are exchanged together."""
    prefixes = sorted({pair.prefix for pair in pairs})
    random.Random(seed).shuffle(prefixes)
    half = set(prefixes[: len(prefixes) // 2])
    return dataclasses.replace(
        pairs, pairs=tuple(_exchanged(pair, pairs.labels) if pair.prefix in half else pair for pair in pairs)
    )


def _exchanged(pair: MinimalPair, labels: tuple[str, str]) -> MinimalPair:
    other = {labels[0]: labels[1], labels[1]: labels[0]}
    first, second = pair.words
    return dataclasses.replace(
        pair,
        words=(second, first),
        label=other.get(pair.label, ""),
        counterfactuals=pair.counterfactuals[::-1],
    )


def search_permuted(search: Search, train: Problem, test: Problem, seed: int) -> NullSearch:
    """The same search with permuted labels. The held-out pairs are permuted too: a search that learned the exchanged
    words of single prefixes would not flip them. A basis that is fitted to labels is fitted to the permuted ones."""
    given = {name: basis for name, basis in train.model.bases.items() if name.partition("@")[2] not in BASES}
    bare = train.model.without_bases().in_bases(given) if train.model.bases else None
    asked = train.on(permuted(train.pairs, seed + _SEED), model=bare).keeping(train.kept)
    held_out = test.on(permuted(test.pairs, seed + _SEED), model=asked.model if bare else None)
    found = search.solve(asked, runs=1, seed=seed).interventions
    flips, _ = score_many(found, held_out)
    return NullSearch(
        flip_accuracy=tuple(flips.mean(1).tolist()),
        units=tuple(len(intervention) for intervention in found),
        clean_accuracy=held_out.clean_accuracy,
    )
