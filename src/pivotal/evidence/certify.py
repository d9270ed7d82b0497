"""Certificates: whether every unit of a set matters, whether a swap is better, and whether a smaller set is enough.

All decisions use training pairs. Scores on held-out pairs are only reported. The values of all sets are fitted with the
same number of updates, and all sets are judged on the same prefixes. If the set was found inside natural ranges, its
rivals stay inside theirs too.

One rule compares two sets: a set is better if its flips exceed those of the other by more than epsilon plus two
standard errors of the difference. A unit matters if the whole set is better than the set without it. A swap refutes
the set if it is better. A smaller set is enough if the found set is not better. If the found set keeps a bound on KL,
a set that exceeds the bound is worse than a set that keeps it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pivotal.evidence.evaluation import check_question
from pivotal.evidence.examination import costs_of, flips_of
from pivotal.evidence.intervals import clustered_variance
from pivotal.evidence.scan import Scan, Tried
from pivotal.models.edits import dense, spread
from pivotal.problem.objective import TOLERANCE, Terms
from pivotal.problem.problem import Problem
from pivotal.records.certificate import (
    Certificate,
    Effort,
    ExaminedPrefixes,
    Judged,
    Neighbours,
    Reach,
    Smaller,
    Without,
)
from pivotal.records.intervention import Intervention
from pivotal.records.run import Progress
from pivotal.searches.tools.refit import Refit
from pivotal.searches.tools.swaps import Swaps, swaps_of
from pivotal.searches.tools.trials import first_order, grid_of, placed, screened
from pivotal.watch import reporting

_JUDGES = 1024
"""Number of prefixes on which fitted sets are compared."""
_KL_JUDGES = 256
"""Number of prefixes on which KL is measured. There are fewer, because KL needs the whole vocabulary."""
_LOOKS = 5
"""How often values are scored during a fit."""
_TWICE = 3
"""How often the number of units is doubled to see how far units get inside their natural ranges."""


def certify(
    intervention: Intervention,
    train: Problem,
    *,
    terms: Terms | None = None,
    test: Problem | None = None,
    effort: Effort | None = None,
    seed: int = 0,
    progress: Callable[[Progress], None] | bool | None = None,
) -> Certificate:
    """Compare an intervention with its swaps and with smaller sets. `terms` is the loss of its search."""
    check_question(intervention, train)
    train.check_whole_bases()
    with reporting(progress) as report:
        work = _Certifier(train, terms or Terms(), test, effort or Effort(), seed, report)
        return work.examine(intervention)


@dataclass(frozen=True, eq=False)
class _Scored:
    """A judged set and the pairs that it flips."""

    judged: Judged
    flips: np.ndarray


class _Certifier:
    def __init__(
        self,
        train: Problem,
        terms: Terms,
        test: Problem | None,
        effort: Effort,
        seed: int,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self.train, self.terms, self.test, self.effort, self.seed = train, terms, test, effort, seed
        # Flips decide, so rivals are chosen by flips. KL counts only if there is a bound.
        self.trying = terms if terms.bounded else replace(terms, kl_weight=0.0)
        # KL is reported even where nothing bounds it.
        self.measuring = replace(terms, max_kl=terms.max_kl or torch.inf)
        self.judges = train.sample(_JUDGES, seed)
        self.onlookers = train.sample(_KL_JUDGES, seed)
        self.sample = train.sample(effort.sample, seed)
        self.grid = grid_of(train, effort.points)
        self.refit = Refit(terms, effort.polish, looks=_LOOKS)
        self.progress = progress
        self.judged: list[_Scored] = []
        """All sets judged so far. The first is the found set."""

    def examine(self, intervention: Intervention) -> Certificate:
        started, before = time.monotonic(), self.train.work.nodes
        scan = Scan(self.train, self.trying, self.effort, self.seed, self._tell)
        scan.check()
        mask, values = dense(intervention, self.train.space, self.train.model.device)
        self._tell("refitting the set", 0)
        fitted = self.refit.fit(self.train, mask, values, seed=self.seed)
        (found,) = self._judge(mask.bool(), fitted.values)
        without = self._without(mask[0].bool(), fitted.values[0], found)
        neighbours = self._neighbours(mask[0].bool(), fitted.values[0], fitted.price[0], found)
        smaller = [self._smaller(1, scan.singles(), found)]
        if len(intervention) > 1 and self.effort.pairs != "none":
            smaller.append(self._smaller(2, scan.pairs(), found))
        reach = None
        if self.train.values == "natural":
            reach = self._reach(mask.bool(), fitted.values, fitted.price)
        return Certificate(
            intervention=intervention.fingerprint(),
            found=found.judged,
            without=without,
            neighbours=neighbours,
            smaller=tuple(smaller),
            effort=self.effort,
            prefixes=ExaminedPrefixes(
                tried=_prefixes(self.sample), judged=_prefixes(self.judges), kl=_prefixes(self.onlookers)
            ),
            nodes=self.train.work.nodes - before,
            seconds=round(time.monotonic() - started, 2),
            max_kl=self.terms.max_kl,
            max_change=self.terms.max_change,
            reach=reach,
        )

    # -- the parts ----------------------------------------------------------------------------------------------

    def _without(
        self, mask: Bool[Tensor, "directions units"], values: Tensor, found: _Scored
    ) -> tuple[Without, ...]:
        units = _units(mask)
        if len(units) == 1:
            return ()
        self._tell("leaving units out", 1)
        less = mask.repeat(len(units), 1, 1)
        less[torch.arange(len(units)), :, units] = False
        left = self._fit_and_judge(less, values.expand(len(units), -1, -1))
        return tuple(
            Without(self._name(unit), one.judged, matters=self._better(found, one))
            for unit, one in zip(units, left, strict=True)
        )

    def _neighbours(
        self, mask: Bool[Tensor, "directions units"], values: Tensor, price: Tensor, found: _Scored
    ) -> Neighbours:
        effort, k = self.effort, len(_units(mask))
        if k == len(self.train.space):
            return Neighbours(0, 0, 0, 0, 0, best=None, swap=None, optimal=True)
        self._tell("swapping units", 2)
        noise = torch.Generator().manual_seed(self.seed)

        def swaps(choose: Callable[[Tensor], Tensor]) -> Swaps:
            return swaps_of(self.sample, self.trying, price, mask, values, self.grid, choose)

        tried = swaps(lambda gain: screened(gain, effort.candidates))
        left_out = max(0, len(self.train.space) - k - effort.candidates) if effort.candidates else 0
        audited, hits = min(effort.audit, left_out), 0
        trials = [(tried, i) for i in tried.finalists(effort.finalists)]
        if audited:
            drawn = swaps(lambda gain: _drawn(gain, effort.candidates, audited, noise))
            hits = int((drawn.score < tried.score[min(effort.finalists, len(tried)) - 1]).sum())
            trials += [(drawn, i) for i in range(min(hits, effort.finalists))]
        made = [some.applied(i, mask, values) for some, i in trials]
        rivals = self._fit_and_judge(torch.stack([m for m, _ in made]), torch.stack([v for _, v in made]))
        best = _most_flips(rivals)
        some, i = trials[rivals.index(best)]
        return Neighbours(
            there_are=k * (len(self.train.space) - k),
            tried=len(tried),
            audited=audited * k,
            audit_hits=hits,
            refitted=len(rivals),
            best=best.judged,
            swap=(self._name(int(some.out[i])), self._name(int(some.in_[i]))),
            optimal=not any(self._better(rival, found) for rival in rivals),
        )

    def _smaller(self, size: int, tried: Tried, found: _Scored) -> Smaller:
        mask, values = placed(self.train.space, tried.units, tried.grid, tried.point)
        self._fit_and_judge(mask.bool(), values)
        best = _most_flips([one for one in self.judged if len(one.judged.units) <= size])
        fewer = len(best.judged.units) < len(found.judged.units)
        return Smaller(
            size=size,
            there_are=math.comb(len(self.train.space), size),
            looks=tried.looks,
            refitted=len(tried.units),
            best=best.judged,
            enough=fewer and not self._better(found, best),
        )

    def _reach(
        self, mask: Bool[Tensor, "1 directions units"], values: Tensor, price: Float[Tensor, "1 bounds"]
    ) -> Reach:
        self._tell("larger sets", 4)
        # Judged first, and not kept: a set outside the ranges is no rival.
        free = self.refit.fit(self.train.with_values("unbounded"), mask.float(), values, seed=self.seed)
        (lifted,) = self._judge(mask, free.values)
        self.judged.remove(lifted)
        gain = first_order(self.sample, self.trying, price, mask, values, self.grid)[0]
        order, k = gain.argsort(descending=True), len(_units(mask[0]))
        sizes = sorted({min(k * 2**i, len(self.train.space)) for i in range(1, _TWICE + 1)} - {k})
        if not sizes:
            return Reach(lifted=lifted.judged, larger=())
        more = mask.repeat(len(sizes), 1, 1)
        for i, size in enumerate(sizes):
            more[i][:, order[: size - k]] = True
        start = torch.where(spread(self.train.space, mask.float()) > 0, values, self.grid[-1])
        larger = self._fit_and_judge(more, start.expand(len(sizes), -1, -1))
        return Reach(lifted=lifted.judged, larger=tuple(one.judged for one in larger))

    # -- fitting and judging ------------------------------------------------------------------------------------

    def _fit_and_judge(self, mask: Bool[Tensor, "sets directions units"], values: Tensor) -> list[_Scored]:
        return self._judge(mask, self.refit.fit(self.train, mask.float(), values, seed=self.seed).values)

    @torch.no_grad()
    def _judge(self, mask: Bool[Tensor, "sets directions units"], values: Tensor) -> list[_Scored]:
        on = mask.float()
        flipped = flips_of(on, values, self.judges)
        costs = costs_of(on, values, self.onlookers, self.measuring)
        excess = self.measuring.excess(self.onlookers, costs)
        tested = None if self.test is None else flips_of(on, values, self.test)
        scored = [
            _Scored(
                Judged(
                    units=tuple(self._name(unit) for unit in _units(chosen)),
                    flipped=float(flipped[i].mean()),
                    kl=float(costs[i, 0]),
                    bound_kept=bool(excess[i] <= TOLERANCE),
                    flipped_test=None if tested is None else float(tested[i].mean()),
                ),
                flipped[i],
            )
            for i, chosen in enumerate(mask)
        ]
        self.judged += scored
        return scored

    def _better(self, one: _Scored, other: _Scored) -> bool:
        """Compare two judged sets by the rule of this module."""
        bounded = self.judged[0].judged.bound_kept
        if bounded and not (one.judged.bound_kept and other.judged.bound_kept):
            return one.judged.bound_kept and not other.judged.bound_kept
        gain = one.flips.astype(float) - other.flips
        error = math.sqrt(clustered_variance(gain - gain.mean(), self.judges.prefix_ids))
        return bool(gain.mean() - self.effort.epsilon > 2 * error)

    def _name(self, unit: int) -> str:
        return str(self.train.space.unit(unit))

    def _tell(self, phase: str, done: int, of: int = 5) -> None:
        if self.progress is not None:
            self.progress(Progress(phase, done, of))


def _units(mask: Bool[Tensor, "directions units"]) -> list[int]:
    return mask.any(0).nonzero()[:, 0].tolist()


def _most_flips(scored: list[_Scored]) -> _Scored:
    return max(scored, key=lambda one: (one.judged.bound_kept, one.judged.flipped))


def _prefixes(problem: Problem) -> int:
    return len(np.unique(problem.examples.leaves))


def _drawn(
    gain: Float[Tensor, "sets units"], screened_in: int, n: int, noise: torch.Generator
) -> Int[Tensor, "sets candidates"]:
    """Random units from those that the screening excluded."""
    order = gain.argsort(dim=1, descending=True)
    left = int((gain > -torch.inf).sum(1).min()) - screened_in
    picks = torch.stack([torch.randperm(left, generator=noise)[:n] for _ in range(len(gain))])
    return order.gather(1, screened_in + picks.to(order.device))
