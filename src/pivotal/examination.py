"""Examining a found set: that every unit matters, that no swap helps, that fewer are not enough.

Everything is decided on training pairs; held-out pairs only report. Two sets are compared on an equal footing: values
fitted to each by the same number of updates, flips counted on the same prefixes. A rival is better if it flips more
than epsilon more, by more than two standard errors of the difference, and keeps the bound on KL where there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pivotal.certificate import Certificate, Effort, Judged, Neighbours, Smaller, Without
from pivotal.edits import dense
from pivotal.errors import PivotalError
from pivotal.evaluation import check_question, score_masks
from pivotal.exchanging import Swaps, swaps_of
from pivotal.intervention import Intervention
from pivotal.objective import Terms
from pivotal.problem import Problem
from pivotal.refit import Refit
from pivotal.searches.base import Clock, Progress
from pivotal.summary import KL_TOLERANCE
from pivotal.trials import (
    Scores,
    finalists,
    first_order,
    grid_of,
    score_additions,
    score_sets,
    screened,
)

_JUDGES = 1024
"""Prefixes on which sets with fitted values are compared."""
_MOST_PAIRS = 2_000_000
_SCAN = {"prefixes": 32, "points": 3}
"""On what, and at how many values of each unit, every pair there is would be tried."""
_RESCANNED = 2000


def certify(
    intervention: Intervention,
    train: Problem,
    *,
    terms: Terms | None = None,
    test: Problem | None = None,
    effort: Effort | None = None,
    seed: int = 0,
    progress: Callable[[Progress], None] | None = None,
) -> Certificate:
    """Examine an intervention among its neighbours and smaller rivals; `terms` are the loss that it was found with."""
    intervention.check_model(train.model.name, train.model.fingerprint())
    check_question(intervention, train)
    work = _Examination(train, terms or Terms(), test, effort or Effort(), seed, progress)
    return work.examine(intervention)


class _Examination:
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
        self.judges = train.sample(_JUDGES, seed)
        self.sample = train.sample(effort.sample, seed)
        self.grid = grid_of(train, effort.points)
        self.refit = Refit(terms, effort.polish)
        self.progress = progress
        self.judged: list[Judged] = []
        """All sets that were judged so far."""
        self.flips: dict[int, np.ndarray] = {}
        """By the identity of a judged set: the share of each prefix's pairs that it flips."""

    def examine(self, intervention: Intervention) -> Certificate:
        clock = Clock(self.train)
        units = len(self.train.space)
        if self.effort.pairs == "all" and units * (units - 1) // 2 > _MOST_PAIRS:
            raise PivotalError(
                f"Every pair can be tried where there are at most {_MOST_PAIRS:,} of them, but {units:,} units make "
                f"{units * (units - 1) // 2:,}. Use pairs screened, or fewer sites."
            )
        mask, values = dense(intervention, self.train.space, self.train.model.device)
        self._tell("refitting the set", 0)
        fitted = self.refit.fit(self.train, mask, values, seed=self.seed)
        (found,) = self._judge(mask.bool(), fitted.values)
        without = self._without(mask[0].bool(), fitted.values[0], found)
        neighbours = self._neighbours(mask[0].bool(), fitted.values[0], fitted.price[0], found)
        smaller = [self._singles(found)]
        if len(intervention) > 1 and self.effort.pairs != "none":
            smaller.append(self._pairs(found))
        cost = clock.read()
        return Certificate(
            found=found,
            without=without,
            neighbours=neighbours,
            smaller=tuple(smaller),
            effort=self.effort,
            prefixes={"tried": _prefixes(self.sample), "judged": _prefixes(self.judges)},
            nodes=cost.nodes,
            seconds=round(cost.seconds, 2),
            max_kl=self.terms.max_kl,
        )

    # -- the parts ----------------------------------------------------------------------------------------------

    def _without(
        self, mask: Bool[Tensor, "directions units"], values: Tensor, found: Judged
    ) -> tuple[Without, ...]:
        units = _units(mask)
        if len(units) == 1:
            return ()
        self._tell("leaving units out", 1)
        less = mask.repeat(len(units), 1, 1)
        less[torch.arange(len(units)), :, units] = False
        left = self._fit_and_judge(less, values.expand(len(units), -1, -1))
        return tuple(
            Without(self._name(u), j, found.flipped - j.flipped > self.effort.epsilon or not j.bound_kept)
            for u, j in zip(units, left, strict=True)
        )

    def _neighbours(
        self, mask: Bool[Tensor, "directions units"], values: Tensor, price: Tensor, found: Judged
    ) -> Neighbours:
        effort, k = self.effort, len(_units(mask))
        self._tell("swapping units", 2)
        noise = torch.Generator().manual_seed(self.seed)

        def swaps(choose: Callable[[Tensor], Tensor]) -> Swaps:
            return swaps_of(self.sample, self.terms, price, mask, values, self.grid, choose)

        tried = swaps(lambda gain: screened(gain, effort.candidates))
        left_out = max(0, len(self.train.space) - k - effort.candidates) if effort.candidates else 0
        audited, hits = min(effort.audit, left_out), 0
        trials = [(tried, i) for i in tried.finalists(effort.finalists)]
        if audited:
            drawn = swaps(lambda gain: _drawn(gain, effort.candidates, audited, noise))
            hits = int((drawn.score < tried.score[min(effort.finalists, len(tried)) - 1]).sum())
            trials += [(drawn, i) for i in range(min(hits, effort.finalists))]
        made = [some.applied(i, mask, values) for some, i in trials]
        judged = self._fit_and_judge(torch.stack([m for m, _ in made]), torch.stack([v for _, v in made]))
        best = self._most_flips(judged)
        some, i = trials[judged.index(best)]
        return Neighbours(
            there_are=k * (len(self.train.space) - k),
            tried=len(tried),
            audited=audited * k,
            audit_hits=hits,
            refitted=len(judged),
            best=best,
            swap=(self._name(int(some.out[i])), self._name(int(some.in_[i]))),
            optimal=not any(self._better(rival, found) for rival in judged),
        )

    def _singles(self, found: Judged) -> Smaller:
        self._tell("single units", 3)
        units = len(self.train.space)
        mask = torch.zeros(1, len(self.train.labels), units, dtype=torch.bool, device=self._device)
        price = torch.full((1,), self.terms.first_price, device=self._device)
        everyone = torch.arange(units, device=self._device)[None]
        tried = score_additions(self.sample, self.terms, price, mask, mask.float(), everyone, self.grid)
        self._single = tried
        order = finalists(tried.score[0], tried.accuracy[0], self.effort.finalists)
        self._fit_sets(order[:, None], tried.values[0, order][..., None])
        return self._smaller(1, units, units, len(order), found)

    def _pairs(self, found: Judged) -> Smaller:
        units = len(self.train.space)
        there_are = units * (units - 1) // 2
        if self.effort.pairs == "all":
            pairs, values = self._all_pairs()
            self._fit_sets(pairs, values)
            return self._smaller(2, there_are, there_are, len(pairs), found, **_SCAN)
        self._tell("pairs", 4)
        first = self._single.score[0].argsort()[: self.effort.first]
        mask = torch.zeros(len(first), len(self.train.labels), units, dtype=torch.bool, device=self._device)
        values = torch.zeros(mask.shape, device=self._device)
        for row, unit in enumerate(first.tolist()):
            mask[row, :, unit] = True
            values[row, :, unit] = self._single.values[0, unit]
        price = torch.full((len(first),), self.terms.first_price, device=self._device)
        gain = first_order(self.sample, self.terms, price, mask, values, self.grid)
        partners = screened(gain, self.effort.candidates)
        tried = score_additions(self.sample, self.terms, price, mask, values, partners, self.grid)
        # A pair may have been grown from either of its units: the better of the two counts.
        rows: dict[frozenset[int], tuple[int, int]] = {}
        for flat in tried.score.flatten().argsort().tolist():
            row, column = divmod(flat, partners.shape[1])
            rows.setdefault(frozenset((int(first[row]), int(partners[row, column]))), (row, column))
        base, column = torch.tensor(list(rows.values()), device=self._device).T
        pairs = torch.stack([first[base], partners[base, column]], 1)
        at = torch.stack([self._single.values[0, first[base]], tried.values[base, column]], -1)
        chosen = finalists(tried.score[base, column], tried.accuracy[base, column], self.effort.finalists)
        self._fit_sets(pairs[chosen], at[chosen])
        return self._smaller(2, there_are, len(pairs), len(chosen), found)

    def _all_pairs(self) -> tuple[Int[Tensor, "sets 2"], Float[Tensor, "sets directions 2"]]:
        """Every pair at the ends and the natural value of both units on few prefixes, the best again on more prefixes
        and at more values."""
        units = len(self.train.space)
        everyone = torch.triu_indices(units, units, 1, device=self._device).T
        few = self.train.sample(_SCAN["prefixes"], self.seed)
        kept, _ = self._scan(few, everyone, grid_of(self.train, _SCAN["points"]), _RESCANNED)
        return self._scan(self.sample, kept, self.grid, self.effort.finalists)

    def _scan(
        self, problem: Problem, pairs: Int[Tensor, "sets 2"], grid: Tensor, keep: int
    ) -> tuple[Int[Tensor, "kept 2"], Float[Tensor, "kept directions 2"]]:
        """The best pairs at any two values of a grid, and these values."""
        # KL that is only weighed, not bounded, is left for the finalists: it would double the price of a pair.
        terms = self.terms if self.terms.max_kl is not None else replace(self.terms, kl_weight=0.0)
        price = torch.full((), self.terms.first_price, device=self._device)
        points, directions, _ = grid.shape
        combinations = torch.cartesian_prod(torch.arange(points), torch.arange(points)).to(self._device)
        size = max(1, problem.runs_at_once() // len(combinations))
        best: list[Tensor] = []
        where: list[Tensor] = []
        for number, some in enumerate(pairs.split(size)):
            if number % 50 == 0:
                self._tell("pairs", number * size, len(pairs))
            at = torch.stack([grid[combinations[:, i]][:, :, some[:, i]] for i in (0, 1)], -1)
            at = at.permute(2, 0, 1, 3)  # pairs, combinations, directions, 2
            flat = some[:, None].expand(-1, len(combinations), -1).flatten(0, 1)
            scores = score_sets(problem, terms, price, flat, at.flatten(0, 1))
            shape = (len(some), len(combinations), directions)
            picked, at_which = Scores(scores.score.view(shape), scores.accuracy.view(shape)).best(1)
            best.append(picked.score.sum(-1))
            where.append(at_which)
        order = torch.cat(best).argsort()[:keep]
        chosen, at_best = pairs[order], combinations[torch.cat(where)[order]]
        direction = torch.arange(directions, device=self._device)
        at = torch.stack([grid[at_best[..., i], direction, chosen[:, i, None]] for i in (0, 1)], -1)
        return chosen, at

    # -- fitting and judging ------------------------------------------------------------------------------------

    def _smaller(
        self,
        size: int,
        there_are: int,
        tried: int,
        refitted: int,
        found: Judged,
        *,
        prefixes: int | None = None,
        points: int | None = None,
    ) -> Smaller:
        best = self._most_flips([j for j in self.judged if len(j.units) <= size])
        fewer = len(best.units) < len(found.units) and best.bound_kept
        return Smaller(
            size=size,
            there_are=there_are,
            tried=tried,
            prefixes=prefixes or _prefixes(self.sample),
            points=points or self.effort.points,
            refitted=refitted,
            best=best,
            enough=fewer and best.flipped >= found.flipped - self.effort.epsilon,
        )

    def _fit_sets(self, units: Int[Tensor, "sets k"], values: Float[Tensor, "sets directions k"]) -> None:
        index = units[:, None].expand_as(values)
        shape = (len(units), len(self.train.labels), len(self.train.space))
        mask = torch.zeros(shape, device=self._device).scatter_(2, index, 1.0)
        self._fit_and_judge(mask.bool(), torch.zeros_like(mask).scatter_(2, index, values))

    def _fit_and_judge(self, mask: Bool[Tensor, "sets directions units"], values: Tensor) -> list[Judged]:
        fitted = self.refit.fit(self.train, mask.float(), values, seed=self.seed)
        return self._judge(mask, fitted.values)

    @torch.no_grad()
    def _judge(self, mask: Bool[Tensor, "sets directions units"], values: Tensor) -> list[Judged]:
        judged = []
        flipped, kl, _ = score_masks(mask.float(), values, self.judges)
        tested = None if self.test is None else score_masks(mask.float(), values, self.test, kl=False)[0]
        size = self.judges.runs_at_once()
        loss = torch.cat(
            [
                self.terms.loss(self.judges.run(m.float(), v))
                for m, v in zip(mask.split(size), values.split(size), strict=True)
            ]
        ).tolist()
        most = torch.inf if self.terms.max_kl is None else KL_TOLERANCE * self.terms.max_kl
        for i, on in enumerate(mask):
            one = Judged(
                units=tuple(self._name(u) for u in _units(on)),
                flipped=float(flipped[i].mean()),
                loss=loss[i] + self.terms.kl_weight * float(kl[i]),
                kl=float(kl[i]),
                bound_kept=bool(kl[i] <= most),
                flipped_test=None if tested is None else float(tested[i].mean()),
            )
            self.flips[id(one)] = flipped[i]
            judged.append(one)
        self.judged += judged
        return judged

    def _better(self, rival: Judged, found: Judged) -> bool:
        """More than epsilon more flips, by two standard errors over prefixes, whose pairs flip together or not."""
        if found.bound_kept and not rival.bound_kept:
            return False
        gain = self.flips[id(rival)].astype(float) - self.flips[id(found)]
        prefixes, of = np.unique(self.judges.tree.leaf, return_inverse=True)
        spread = np.bincount(of, gain - gain.mean()).std() * np.sqrt(len(prefixes)) / len(gain)
        return bool(gain.mean() - self.effort.epsilon > 2 * spread)

    @staticmethod
    def _most_flips(judged: list[Judged]) -> Judged:
        return max(judged, key=lambda j: (j.bound_kept, j.flipped))

    @property
    def _device(self) -> torch.device:
        return self.train.model.device

    def _name(self, unit: int) -> str:
        return str(self.train.space.unit(unit))

    def _tell(self, phase: str, done: int, of: int = 5) -> None:
        if self.progress is not None:
            self.progress(Progress(phase, done, of, [], [], []))


def _units(mask: Bool[Tensor, "directions units"]) -> list[int]:
    return mask.any(0).nonzero()[:, 0].tolist()


def _prefixes(problem: Problem) -> int:
    return len(np.unique(problem.tree.leaf))


def _drawn(
    gain: Float[Tensor, "sets units"], screened_in: int, n: int, noise: torch.Generator
) -> Int[Tensor, "sets candidates"]:
    """Units at random from those that the screening leaves out."""
    order = gain.argsort(dim=1, descending=True)
    left = int((gain > -torch.inf).sum(1).min()) - screened_in
    picks = torch.stack([torch.randperm(left, generator=noise)[:n] for _ in range(len(gain))])
    return order.gather(1, screened_in + picks.to(order.device))
