"""Fidelity: how far an edit takes the model to what it says itself after the counterfactual prefix.

c is what the untouched model says after the counterfactual prefix, o what it says after the prefix itself, and e what
the edited model says there. The edit closes 1 - KL(c || e) / KL(c || o) of the gap, over the whole vocabulary. Flips
look at two words only, and KL(o || e) counts the effect itself as a cost.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.evidence.controls import matched_sets
from pivotal.evidence.examination import Examination
from pivotal.evidence.intervals import clusters_of, ratio_of
from pivotal.problem.problem import Problem
from pivotal.records.evidence import Share
from pivotal.records.summary import Fidelity

_PREFIXES = 128
"""The held-out prefixes on which fidelity is measured."""
_RANDOM, _RANDOM_PREFIXES = 4, 32
"""The random sets that give the floor, and the prefixes of each."""
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
    states = [examined.outcome.states]
    if limits:
        states.append(examined.exchanged[1].states[:, 1:])
    gap = Gap(examined.problem, torch.cat(states, 1))
    if min(gap.asked.mean(), gap.from_cue.mean()) < _NO_GAP:
        return None
    (asked, from_cue), *most = gap.closed
    before, between, at_asked = gap.split(examined.kl_at_nodes[:, 0])
    return Fidelity(
        asked=asked,
        from_cue=from_cue,
        gap=(float(gap.asked.mean()), float(gap.from_cue.mean())),
        kl_before=before,
        kl_between=between,
        kl_asked=at_asked,
        ceiling=_mean_closed(most) if limits else None,
        floor=_floor(examined) if limits else None,
    )


def _floor(examined: Examination) -> tuple[float, float]:
    """What an interchange of random sets closes on average."""
    few = examined.exchanged[0].sample(_RANDOM_PREFIXES)
    drawn = matched_sets(examined.intervention, few, _RANDOM, 0)
    values = drawn.new_zeros(_RANDOM, len(few.labels), few.space.coordinates)
    return _mean_closed(Gap(few, few.run(drawn, values).states).closed)


def _mean_closed(closed: Sequence[tuple[Share, Share]]) -> tuple[float, float]:
    asked, from_cue = np.mean([[share.value for share in both] for both in closed], axis=0).tolist()
    return asked, from_cue


class Gap:
    """KL(c || o) of prefixes that are matched with counterfactual prefixes, and what edits close of it. Every prefix
    counts once, whatever the number of its pairs."""

    def __init__(self, problem: Problem, states: Float[Tensor, "live runs width"]) -> None:
        tree, counterfactuals = problem.tree, problem.examples.counterfactuals
        assert counterfactuals is not None and tree.source is not None
        self._tree = tree
        self._leaves, first = np.unique(problem.examples.leaves, return_index=True)
        differs = tree.live & (tree.token != counterfactuals.tree.token[tree.source])
        differs[self._leaves] = True  # of two prompts, one may be the beginning of the other
        self._changed = tree.gathered(differs.astype(np.int64)) > 0
        """For each node, whether the two prefixes differ there: from the cue on, as a rule."""
        self._after = tree.gathered(self._changed.astype(np.int64))[self._leaves]
        """For each prefix, the number of positions from there on."""
        kl = problem.counterfactual.once(torch.cat([problem.tensors.clean[:, None], states], 1))
        (self.asked, self.from_cue), *left = map(self._distance, kl.unbind(1))
        """For each prefix, the gap at the asked position, and its mean from the cue to the end."""
        clusters = clusters_of(problem.pairs, asked=False)[:, first]

        def closed(left: np.ndarray, gap: np.ndarray) -> Share:
            return ratio_of(gap - left, gap, clusters)

        self.closed = [
            (closed(asked, self.asked), closed(from_cue, self.from_cue)) for asked, from_cue in left
        ]
        """For each run, the share of the gap that it closes: at the asked position, and from the cue to the end."""

    def split(self, kl: Float[Tensor, " live"]) -> tuple[float | None, float | None, float]:
        """The mean of a KL before the cue, from the cue to the asked position, and there; None where there are no such
        positions."""
        asked, after, whole = self._along(kl)
        positions = self._tree.depth[self._leaves] - self._after
        return _mean(whole - after, positions), _mean(after - asked, self._after - 1), float(asked.mean())

    def _distance(self, kl: Float[Tensor, " live"]) -> tuple[np.ndarray, np.ndarray]:
        """KL to the counterfactual at the asked position, and its mean from the cue to the end."""
        asked, after, _ = self._along(kl)
        return asked, after / self._after

    def _along(self, kl: Float[Tensor, " live"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """KL of each prefix at its last position, its sum from the cue on, and its sum over all positions."""
        at = np.zeros(len(self._tree.token))
        at[self._tree.live] = kl.cpu().numpy()
        after, whole = self._tree.gathered(at * self._changed), self._tree.gathered(at)
        return at[self._leaves], after[self._leaves], whole[self._leaves]


def _mean(total: np.ndarray, positions: np.ndarray) -> float | None:
    """The mean over the prefixes that have such positions of the mean over these positions."""
    some = positions > 0
    return float((total[some] / positions[some]).mean()) if some.any() else None
