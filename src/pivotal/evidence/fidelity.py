"""Fidelity: how far an edit takes the model to what it says itself after the counterfactual prefix.

c is what the untouched model says after the counterfactual prefix, o what it says after the prefix itself, and e what
the edited model says there. The edit closes 1 - KL(c || e) / KL(c || o) of the gap, over the whole vocabulary. Flips
look at two words only, and KL(o || e) counts the effect itself as a cost.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.evidence.controls import matched_sets
from pivotal.evidence.examination import Examination
from pivotal.evidence.intervals import student_quantile
from pivotal.models.edits import dense
from pivotal.problem.problem import Problem
from pivotal.records.evidence import Share
from pivotal.records.intervention import Intervention
from pivotal.records.summary import Fidelity

_PREFIXES = 128
"""The held-out prefixes on which fidelity is measured."""
_RANDOM, _RANDOM_PREFIXES = 4, 32
"""The random sets that give the floor, and the prefixes of each: together they cost as much as the ceiling."""
_NO_GAP = 1e-6
"""Below this KL(c || o), in nats, there is nothing to close."""


@torch.no_grad()
def fidelity_of(examination: Examination, *, limits: bool = False) -> Fidelity | None:
    """The fidelity of an edit on a sample of the pairs; None if no pair has a counterfactual prefix, or if the model
    says the same after all of them. With `limits`, those of an interchange too: of the whole sites, the ceiling, and of
    random sets of as many units, the floor."""
    examined = examination.sample(_PREFIXES).matched
    if examined is None:
        return None
    problem, states = examined.problem, examined.outcome.states
    gap = Gap(problem)
    if min(gap.asked.mean(), gap.from_cue.mean()) < _NO_GAP:
        return None
    asked, from_cue = gap.closed(states)
    before, between, at_asked = gap.split(examined.kl_at_nodes[:, 0])
    floor = ceiling = None
    if limits:
        floor, ceiling = _limits(examination.intervention, problem, gap)
    return Fidelity(
        asked=asked,
        from_cue=from_cue,
        gap=(float(gap.asked.mean()), float(gap.from_cue.mean())),
        kl_before=before,
        kl_between=between,
        kl_asked=at_asked,
        ceiling=ceiling,
        floor=floor,
    )


def _limits(
    intervention: Intervention, problem: Problem, gap: Gap
) -> tuple[tuple[float, float], tuple[float, float]]:
    """What an interchange of random sets closes on average, and what that of all units of the sites closes: where the
    words are asked, and from the cue to the end."""
    whole = problem.exchanging(intervention.sites)
    mask, values = dense(intervention, whole.space, whole.model.device)
    most = [share.value for share in gap.closed(whole.run(torch.ones_like(mask), values).states)]
    few = whole.sample(_RANDOM_PREFIXES)
    drawn = matched_sets(intervention, few, _RANDOM, 0)
    states, there = few.run(drawn, values.expand(_RANDOM, -1, -1)).states, Gap(few)
    least = [[share.value for share in there.closed(one)] for one in states.split(1, 1)]
    asked, from_cue = np.mean(least, axis=0).tolist()
    return (asked, from_cue), (most[0], most[1])


class Gap:
    """KL(c || o) of prefixes that are matched with counterfactual prefixes, and what edits close of it. Every prefix
    counts once, whatever the number of its pairs."""

    def __init__(self, problem: Problem) -> None:
        tree, counterfactuals = problem.tree, problem.examples.counterfactuals
        assert counterfactuals is not None and tree.source is not None
        self._tree, self._counterfactual = tree, problem.counterfactual
        self._leaves = np.unique(problem.examples.leaves)
        differs = tree.live & (tree.token != counterfactuals.tree.token[tree.source])
        differs[self._leaves] = True  # of two prompts, one may be the beginning of the other
        self._changed = tree.gathered(differs.astype(np.int64)) > 0
        """For each node, whether the two prefixes differ there: from the cue on, as a rule."""
        self._after = tree.gathered(self._changed.astype(np.int64))[self._leaves]
        """For each prefix, the number of positions from there on."""
        self.asked, self.from_cue = self._distance(problem.tensors.clean[:, None])
        """For each prefix, the gap at the asked position, and its mean from the cue to the end."""

    def closed(self, states: Float[Tensor, "live 1 width"]) -> tuple[Share, Share]:
        """The share of the gap that an edit closes: at the asked position, and from the cue to the end."""
        asked, from_cue = self._distance(states)
        return _closed(asked, self.asked), _closed(from_cue, self.from_cue)

    def split(self, kl: Float[Tensor, " live"]) -> tuple[float | None, float | None, float]:
        """The mean of a KL before the cue, from the cue to the asked position, and there; None where there are no such
        positions."""
        asked, after, whole = self._along(kl)
        positions = self._tree.depth[self._leaves] - self._after
        return _mean(whole - after, positions), _mean(after - asked, self._after - 1), float(asked.mean())

    def _distance(self, states: Float[Tensor, "live 1 width"]) -> tuple[np.ndarray, np.ndarray]:
        """KL to the counterfactual at the asked position, and its mean from the cue to the end."""
        asked, after, _ = self._along(self._counterfactual.at(states)[:, 0])
        return asked, after / self._after

    def _along(self, kl: Float[Tensor, " live"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """KL of each prefix at its last position, its sum from the cue on, and its sum over all positions."""
        at = np.zeros(len(self._tree.token))
        at[self._tree.live] = kl.cpu().numpy()
        after, whole = self._tree.gathered(at * self._changed), self._tree.gathered(at)
        return at[self._leaves], after[self._leaves], whole[self._leaves]


def _closed(left: np.ndarray, gap: np.ndarray) -> Share:
    """1 - the ratio of two means, with the interval of a ratio."""
    ratio, n = float(left.sum() / gap.sum()), len(gap)
    reach = 0.0
    if n > 1:
        variance = n / (n - 1) * np.square(left - ratio * gap).sum() / gap.sum() ** 2
        reach = student_quantile(n - 1) * float(np.sqrt(variance))
    return Share(1 - ratio, 1 - ratio - reach, 1 - ratio + reach, n)


def _mean(total: np.ndarray, positions: np.ndarray) -> float | None:
    """The mean over the prefixes that have such positions of the mean over these positions."""
    some = positions > 0
    return float((total[some] / positions[some]).mean()) if some.any() else None
