"""What can be proved about a found set: that every unit matters, that no swap helps, that fewer are not enough.

Everything is decided on training pairs; held-out pairs only report. Two sets are compared on an equal footing: values
fitted to each by the same number of updates, flips counted on the same prefixes. A rival is better if its loss (KL
included as in the search) is lower *and* it flips more than epsilon more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pivotal.edits import dense
from pivotal.errors import PivotalError
from pivotal.evaluation import check_question, score_masks
from pivotal.exchanging import Swaps, swaps_of
from pivotal.intervention import Intervention
from pivotal.objective import Terms
from pivotal.problem import Problem
from pivotal.refit import Refit
from pivotal.searches.base import Clock, Progress
from pivotal.trials import Scores, at_once, first_order, grid_of, score_additions, score_sets, screened

_JUDGES = 512
"""Prefixes on which sets with fitted values are compared."""
_MOST_PAIRS = 2_000_000


@dataclass(frozen=True)
class Effort:
    """How much is tried."""

    candidates: int = 32
    """Units tried in the place of each unit, those of the highest first-order gain; 0 tries all."""
    audit: int = 16
    """Units drawn at random from the others, for each unit: they say what the screening may have missed."""
    points: int = 6
    """Values per direction at which a unit is tried."""
    sample: int = 96
    """Training prefixes on which it is tried; 0 takes all."""
    finalists: int = 12
    """Of the sets tried, so many of the best have their values fitted."""
    polish: int = 60
    """Updates of the values."""
    pairs: Literal["screened", "all", "none"] = "screened"
    """Sets of two units: the best single units with promising partners, or every pair there is (for a GPU)."""
    first: int = 24
    """Single units from which screened pairs are grown."""
    epsilon: float = 0.005
    """Flips that count as more."""

    def __post_init__(self) -> None:
        for name, least in (("candidates", 0), ("audit", 0), ("points", 3), ("sample", 0), ("finalists", 1)):
            if getattr(self, name) < least:
                raise PivotalError(f"{name} must be {least} or more, but it is {getattr(self, name)}.")
        for name, least in (("polish", 1), ("first", 1)):
            if getattr(self, name) < least:
                raise PivotalError(f"{name} must be {least} or more, but it is {getattr(self, name)}.")
        if not 0 <= self.epsilon < 1:
            raise PivotalError(f"epsilon is a share of the flips, 0 or more, but it is {self.epsilon:g}.")


@dataclass(frozen=True)
class Judged:
    """A set with fitted values, on training pairs (and held-out ones where there are some)."""

    units: tuple[str, ...]
    flipped: float
    score: float
    """The training loss, KL included as in the search; less is better. Above 1e5: the KL bound is broken."""
    kl: float
    flipped_test: float | None = None


@dataclass(frozen=True)
class Without:
    """What is left without one of the units, the others refitted."""

    unit: str
    left: Judged
    matters: bool


@dataclass(frozen=True)
class Neighbours:
    """The sets that differ in one unit."""

    there_are: int
    tried: int
    audited: int
    audit_hits: int
    """Of the audited swaps, those that scored well enough to be a finalist."""
    best: Judged
    swap: tuple[str, str]
    optimal: bool


@dataclass(frozen=True)
class Smaller:
    """All sets of a smaller (or the same) size that were looked at."""

    size: int
    there_are: int
    tried: int
    best: Judged
    exhaustive: bool


@dataclass(frozen=True)
class Certificate:
    found: Judged
    without: tuple[Without, ...]
    neighbours: Neighbours
    smaller: tuple[Smaller, ...]
    effort: Effort
    prefixes: dict[str, int]
    """On how many training prefixes sets were tried, and judged."""
    nodes: int
    seconds: float

    @property
    def holds(self) -> bool:
        """Every unit matters and no swap is better."""
        return self.neighbours.optimal and all(w.matters for w in self.without)

    def as_dict(self) -> dict[str, Any]:
        return {"holds": self.holds, **asdict(self)}


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

    def examine(self, intervention: Intervention) -> Certificate:
        clock = Clock(self.train)
        mask, values = dense(intervention, self.train.space, self.train.model.device)
        self._tell("refitting the set")
        fitted = self.refit.fit(self.train, mask, values, seed=self.seed)
        (found,) = self._judge(mask.bool(), fitted.values)
        without = self._without(mask[0].bool(), fitted.values[0], found)
        neighbours = self._neighbours(mask[0].bool(), fitted.values[0], fitted.price[0], found)
        smaller = [self._singles()]
        if len(intervention) > 1 and self.effort.pairs != "none":
            smaller.append(self._pairs())
        cost = clock.read()
        return Certificate(
            found=found,
            without=without,
            neighbours=neighbours,
            smaller=tuple(smaller),
            effort=self.effort,
            prefixes={"tried": self._prefixes(self.sample), "judged": self._prefixes(self.judges)},
            nodes=cost.nodes,
            seconds=round(cost.seconds, 2),
        )

    # -- the parts ----------------------------------------------------------------------------------------------

    def _without(
        self, mask: Bool[Tensor, "directions units"], values: Tensor, found: Judged
    ) -> tuple[Without, ...]:
        units = self._units(mask)
        if len(units) == 1:
            return ()
        self._tell("leaving units out")
        less = mask.repeat(len(units), 1, 1)
        less[torch.arange(len(units)), :, units] = False
        fitted = self.refit.fit(self.train, less.float(), values.expand(len(units), -1, -1), seed=self.seed)
        left = self._judge(less, fitted.values)
        return tuple(
            Without(str(self.train.space.unit(u)), j, found.flipped - j.flipped > self.effort.epsilon)
            for u, j in zip(units, left, strict=True)
        )

    def _neighbours(
        self, mask: Bool[Tensor, "directions units"], values: Tensor, price: Tensor, found: Judged
    ) -> Neighbours:
        effort = self.effort
        self._tell("swapping units")
        noise = torch.Generator().manual_seed(self.seed)

        def swaps(choose: Callable[[Tensor], Tensor]) -> Swaps:
            return swaps_of(self.sample, self.terms, price, mask, values, self.grid, choose)

        best = swaps(lambda gain: screened(gain, effort.candidates))
        rest = len(self.train.space) - len(self._units(mask)) - effort.candidates
        audited = min(effort.audit, rest) if effort.candidates else 0
        hits = 0
        trials = [(best, i) for i in range(min(effort.finalists, len(best)))]
        if audited > 0:
            drawn = swaps(lambda gain: _drawn(gain, effort.candidates, audited, noise))
            worst = best.score[len(trials) - 1]
            hits = int((drawn.score < worst).sum())
            trials += [(drawn, i) for i in range(min(hits, effort.finalists))]
        made = [some.applied(i, mask, values) for some, i in trials]
        judged = self._fit_and_judge(torch.stack([m for m, _ in made]), torch.stack([v for _, v in made]))
        winner = min(range(len(judged)), key=lambda i: judged[i].score)
        some, i = trials[winner]
        name = self.train.space.unit
        k = len(self._units(mask))
        return Neighbours(
            there_are=k * (len(self.train.space) - k),
            tried=len(best),
            audited=audited * k,
            audit_hits=hits,
            best=judged[winner],
            swap=(str(name(int(some.out[i]))), str(name(int(some.in_[i])))),
            optimal=not self._better(judged[winner], found),
        )

    def _singles(self) -> Smaller:
        self._tell("single units")
        units = len(self.train.space)
        mask = torch.zeros(1, len(self.train.labels), units, dtype=torch.bool, device=self._device)
        price = torch.full((1,), self.terms.first_price, device=self._device)
        everyone = torch.arange(units, device=self._device)[None]
        tried = score_additions(self.sample, self.terms, price, mask, mask.float(), everyone, self.grid)
        self._single = tried
        order = tried.score[0].argsort()[: self.effort.finalists]
        best = self._best_of(order[:, None], tried.values[0, order][..., None])
        return Smaller(1, units, units, best, exhaustive=True)

    def _pairs(self) -> Smaller:
        units = len(self.train.space)
        there_are = units * (units - 1) // 2
        if self.effort.pairs == "all" and there_are <= _MOST_PAIRS:
            pairs, values = self._all_pairs()
            return Smaller(2, there_are, there_are, self._best_of(pairs, values), exhaustive=True)
        self._tell("pairs")
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
        order = tried.score.flatten().argsort()
        base, column = order // partners.shape[1], order % partners.shape[1]
        pairs = torch.stack([first[base], partners[base, column]], 1)
        at = torch.stack([self._single.values[0, first[base]], tried.values[base, column]], -1)
        return Smaller(2, there_are, len(order), self._best_of(pairs, at), exhaustive=False)

    def _all_pairs(self) -> tuple[Int[Tensor, "sets 2"], Float[Tensor, "sets directions 2"]]:
        """Every pair at the ends and the natural value of both units on few prefixes, the best again on more prefixes
        and at more values."""
        units = len(self.train.space)
        everyone = torch.triu_indices(units, units, 1, device=self._device).T
        few = self.train.sample(32, self.seed)
        _, kept = self._scan(few, everyone, grid_of(self.train, 3), 2000)
        return self._scan(self.sample, everyone[kept], self.grid, self.effort.finalists, values=True)

    def _scan(
        self, problem: Problem, pairs: Tensor, grid: Tensor, keep: int, *, values: bool = False
    ) -> tuple[Any, Any]:
        """The best pairs at any two values of a grid."""
        # KL that is only weighed, not bounded, is left for the finalists: it would double the price of a pair.
        terms = self.terms if self.terms.max_kl is not None else replace(self.terms, kl_weight=0.0)
        price = torch.full((), self.terms.first_price, device=self._device)
        points, directions, _ = grid.shape
        combinations = torch.cartesian_prod(torch.arange(points), torch.arange(points)).to(self._device)
        size = max(1, at_once(problem) // len(combinations))
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
        if not values:
            return None, order
        chosen, at_best = pairs[order], combinations[torch.cat(where)[order]]
        direction = torch.arange(directions, device=self._device)
        at = torch.stack([grid[at_best[..., i], direction, chosen[:, i, None]] for i in (0, 1)], -1)
        return chosen, at

    # -- fitting and judging ------------------------------------------------------------------------------------

    def _best_of(self, units: Int[Tensor, "sets k"], values: Float[Tensor, "sets directions k"]) -> Judged:
        """The best of the first sets once their values are fitted."""
        units, values = units[: self.effort.finalists], values[: self.effort.finalists]
        index = units[:, None].expand_as(values)
        shape = (len(units), len(self.train.labels), len(self.train.space))
        mask = torch.zeros(shape, device=self._device).scatter_(2, index, 1.0)
        dense_values = torch.zeros_like(mask).scatter_(2, index, values)
        judged = self._fit_and_judge(mask.bool(), dense_values)
        kept = [j for j in judged if j.score < 1e5] or judged
        return max(kept, key=lambda j: j.flipped)

    def _fit_and_judge(self, mask: Bool[Tensor, "sets directions units"], values: Tensor) -> list[Judged]:
        fitted = self.refit.fit(self.train, mask.float(), values, seed=self.seed)
        return self._judge(mask, fitted.values)

    @torch.no_grad()
    def _judge(self, mask: Bool[Tensor, "sets directions units"], values: Tensor) -> list[Judged]:
        judged = []
        flipped, kl, _ = score_masks(mask.float(), values, self.judges)
        tested = (
            None if self.test is None else score_masks(mask.float(), values, self.test, kl=False)[0].mean(1)
        )
        size = at_once(self.judges)
        loss = torch.cat(
            [
                self.terms.loss(self.judges.run(m.float(), v))
                for m, v in zip(mask.split(size), values.split(size), strict=True)
            ]
        )
        score = self.terms.score(loss, torch.as_tensor(kl, device=loss.device)).tolist()
        for i, on in enumerate(mask):
            units = tuple(str(self.train.space.unit(u)) for u in self._units(on))
            held_out = None if tested is None else float(tested[i])
            judged.append(Judged(units, float(flipped[i].mean()), score[i], float(kl[i]), held_out))
        return judged

    def _better(self, rival: Judged, found: Judged) -> bool:
        return rival.score < found.score and rival.flipped > found.flipped + self.effort.epsilon

    @property
    def _device(self) -> torch.device:
        return self.train.model.device

    @staticmethod
    def _units(mask: Bool[Tensor, "directions units"]) -> list[int]:
        return mask.any(0).nonzero()[:, 0].tolist()

    @staticmethod
    def _prefixes(problem: Problem) -> int:
        return len(set(problem.tree.leaf.tolist()))

    def _tell(self, phase: str, done: int = 0, of: int = 1) -> None:
        if self.progress is not None:
            self.progress(Progress(phase, done, of, [], [], []))


def _drawn(
    gain: Float[Tensor, "sets units"], screened_in: int, n: int, noise: torch.Generator
) -> Int[Tensor, "sets candidates"]:
    """Units at random from those that the screening leaves out."""
    order = gain.argsort(dim=1, descending=True)
    left = int((gain > -torch.inf).sum(1).min()) - screened_in
    picks = torch.stack([torch.randperm(left, generator=noise)[:n] for _ in range(len(gain))])
    return order.gather(1, screened_in + picks.to(order.device))
