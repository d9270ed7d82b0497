"""The default search: rank units by gradients, then swap single units while that lowers the loss."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.models.edits import dense, spread
from pivotal.options import check_least
from pivotal.problem.objective import Terms
from pivotal.problem.problem import Problem
from pivotal.records.intervention import Intervention
from pivotal.searches.attribution import LONGER
from pivotal.searches.base import Attempt, Discovery, Progress, interventions_of, most_units, require
from pivotal.searches.choose_then_fit import Selection
from pivotal.searches.tools import HardMasks, RunValues, SetMask, SetValues
from pivotal.searches.tools.hardening import Hardening
from pivotal.searches.tools.refit import FITTED, RATE, Refit
from pivotal.searches.tools.trials import alone, ends_of, gains_at, grid_of, places_of, score_runs

Price: TypeAlias = Float[Tensor, " bounds"]
"""The prices of one run."""

_TRIED = 16
"""Number of distinct prefixes on which the first units are chosen."""
_STAGES = ((16, 8, -0.05), (64, 8, -0.05), (256, 1, 0.005))
"""Numbers of distinct prefixes on which swaps are compared with the set, of the swaps that are left afterwards, and by
how much these must lower the loss: less is a difference between samples of pairs."""
_FEWEST = 16
"""The least number of swaps that are scored in a round."""


@dataclass(frozen=True)
class Exchange(Selection):
    """Rank all units by first-order gains. From the first of them, take the units that do most beside those taken
    before, by masked runs. Fit their values for a few updates. First-order gains beside the other units of the set then
    propose swaps of one unit, and masked runs score them: all on few prefixes, the best on more. Make the best swap, or
    the best two together, if that lowers the loss, and repeat. At the end, fit the values once more and remove units
    that add nothing.

    A round first tries the units from the first site of the set on, because passes through a transformer can begin
    there. Only if none of them lowers the loss, it tries the units of the sites before.

    Nothing is random but the training pairs that a run draws: runs differ only in their samples.
    """

    name: ClassVar[str] = "exchange"
    summary: ClassVar[str] = (
        "the default: units ranked by gradients, then swapped one at a time while that lowers the loss"
    )

    batch: int = 64
    """Distinct prefixes per update of the values. 0 uses all prefixes in every update."""
    refit: int = 20
    """Updates of the values after the last swap, six times as many with a bound on changes. 0 keeps the values of the
    last round."""
    start: str = ""
    """Folder of an intervention to start from; units beyond max_units are removed at the end. By default the search
    chooses its first set itself."""
    prefixes: int = 128
    """Distinct prefixes on which units are ranked; each run draws its own. 0 uses all."""
    pool: int = 24
    """Units among which the first set is chosen by masked runs: those with the highest first-order gain."""
    rounds: int = 20
    """Maximum number of swaps."""
    candidates: int = 6
    """Replacements of each unit that masked runs score in a round: those with the highest first-order gain. With one
    or two units, sixteen swaps are scored in all."""
    sample: int = 32
    """Distinct prefixes on which swaps are proposed. 0 uses all."""
    polish: int = 8
    """Updates of the values before the first round and after each swap."""
    prune: float = 0.002
    """Remove a unit if that loses at most this share of the flips on training pairs. Negative keeps all units."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, prefixes=0, pool=1, rounds=0, candidates=1, sample=0, polish=0)
        require(self, "a share of the flips, below 1", lambda x: x < 1, "prune")

    @property
    def terms(self) -> Terms:
        return super().terms.for_batches(self.batch)

    @property
    def walking_terms(self) -> Terms:
        """The loss of a round. A bound on KL is a price there; the last fit enforces the bound."""
        return self.terms.priced().for_batches(self.batch)

    def check_there(self) -> None:
        self._start()

    def start_fingerprint(self) -> str | None:
        return start.fingerprint() if (start := self._start()) else None

    def check(self, problem: Problem, runs: int, seed: int) -> None:
        super().check(problem, runs, seed)
        if (start := self._start()) is None:
            return
        start.check_model(problem.model.name, problem.model.fingerprint())
        if start.steps != problem.steps or start.directions != problem.labels:
            raise PivotalError(
                f"An exchange must start from an intervention for the same question, but the intervention in "
                f"{self.start} is for {start.steps} step and {' / '.join(start.directions)}. Choose the same steps "
                "and labels."
            )

    def _solve(self, problem: Problem, attempt: Attempt) -> Discovery:
        state = attempt.load()
        steps = [_Step(self, problem, attempt.seed + run) for run in range(attempt.runs)]
        if state is None:
            walks, done = [], 0
            for run, step in enumerate(steps):
                attempt.report(Progress("rank", run, attempt.runs))
                attempt.between_steps()
                walks.append(step.begin(self._start()))
        else:
            walks, done = [_restored(saved, problem) for saved in state["walks"]], state["round"]
        while done < self.rounds and not all(walk.over for walk in walks):
            walks = [walk if walk.over else step(walk) for step, walk in zip(steps, walks, strict=True)]
            done += 1
            losses = [float(walk.score) for walk in walks]
            units = [float(walk.mask.any(0).sum()) for walk in walks]
            attempt.report(Progress("exchange", done, self.rounds, losses, units, []))
            attempt.between_steps(partial(_state, problem, walks, done))
        budget = most_units(self.max_units, problem)
        updates = LONGER * self.refit if self.max_change is not None else self.refit
        last = Hardening(self.terms, updates, self.prune, self.batch, shared=True, quick=True)
        return last.run(problem, None, *_masks_and_values(walks), budget, attempt)

    def _start(self) -> Intervention | None:
        return Intervention.load(Path(self.start)) if self.start else None


@dataclass(frozen=True)
class _Walk:
    """The set of one run between two rounds."""

    mask: SetMask
    values: SetValues
    price: Price
    score: Float[Tensor, ""]
    """The loss of the set where it was last compared with its swaps."""
    over: bool = False
    """Whether no swap lowers the loss."""


def _state(problem: Problem, walks: list[_Walk], done: int) -> dict[str, Any]:
    found = interventions_of(problem, *_masks_and_values(walks))
    return {"interventions": found, "walks": [vars(walk) for walk in walks], "round": done}


def _restored(saved: dict[str, Any], problem: Problem) -> _Walk:
    at = problem.model.device
    parts: Any = {key: part.to(at) if isinstance(part, Tensor) else part for key, part in saved.items()}
    return _Walk(**parts)


def _masks_and_values(walks: list[_Walk]) -> tuple[HardMasks, RunValues]:
    return torch.stack([walk.mask for walk in walks]), torch.stack([walk.values for walk in walks])


class _Step:
    """The steps of one run. Called, it is a round: fit the values, propose swaps, and make the best one if it lowers
    the loss."""

    def __init__(self, search: Exchange, problem: Problem, seed: int) -> None:
        self._search, self._problem, self._seed = search, problem, seed
        self._terms = search.walking_terms
        self._places = places_of(problem.space, problem.model.device)
        self._ends = ends_of(grid_of(problem, points=3))
        widths = torch.tensor([site.width for site in problem.space.sites], device=problem.model.device)
        self._site_of = torch.arange(len(widths), device=widths.device).repeat_interleave(widths)

    def begin(self, start: Intervention | None) -> _Walk:
        """The set before the first round: the given one, or the units that do most beside one another."""
        search, problem = self._search, self._problem
        price = self._terms.first_price(problem)
        if start is None:
            natural = problem.with_values("natural") if problem.values == "unbounded" else problem
            gain, values = alone(natural.sample(search.prefixes, self._seed), self._terms)
            mask = self._chosen(gain, values, price)
        else:
            mask, values = (part[0] for part in dense(start, problem.space, problem.model.device))
            values = values.clamp(*problem.bounds())
        return _Walk(mask.bool(), values, price, torch.tensor(torch.inf))

    def _chosen(self, gain: Float[Tensor, " units"], values: SetValues, price: Price) -> SetMask:
        """The units that do most beside those chosen before, from a pool of those with the highest gain. Half of the
        pool is left out each time."""
        search, problem = self._search, self._problem
        room = most_units(search.max_units, problem)
        pool = gain.topk(min(max(search.pool, room), len(gain))).indices
        mask = torch.zeros(len(values), len(gain), dtype=torch.bool, device=gain.device)
        while room:
            masks = mask.repeat(len(pool), 1, 1)
            masks[torch.arange(len(pool)), :, pool] = True
            some = problem.sample(_TRIED, self._seed)
            order = self._scores(some, price, masks, values.expand(len(pool), -1, -1)).argsort()
            more = max(1, room // 4)
            mask[:, pool[order[:more]]] = True
            pool = pool[order[more : max(room, len(pool) // 2)]]
            room -= more
        return mask

    def __call__(self, walk: _Walk) -> _Walk:
        values, price = self._fitted(walk)
        first, sites = int(self._first_sites(walk.mask[None])), len(self._problem.space.sites)
        for some in filter(len, (range(first, sites), range(first))):
            after = self._swapped(walk.mask, values, price, some)
            if not after.over:
                break
        return after

    def _fitted(self, walk: _Walk) -> tuple[SetValues, Price]:
        """The values of the set, fitted in a few updates, and the price of KL."""
        search, terms, problem = self._search, self._terms, self._problem
        if not search.polish:
            return walk.values, walk.price
        if terms.bounded:
            refit = Refit(terms, LONGER * search.polish, batch=2 * search.batch)
        else:
            problem = problem.sample(FITTED, self._seed)
            refit = Refit(terms, search.polish, RATE, -(-search.batch // 2), 1, search.batch)
        fitted = refit.fit(problem, walk.mask[None].float(), walk.values[None], seed=self._seed)
        return fitted.values[0], fitted.price[0]

    def _swapped(self, mask: SetMask, values: SetValues, price: Price, sites: range) -> _Walk:
        """The set after the best swap for a unit of these sites, or after the best two together."""
        masks, tried = self._swaps(mask, values, price, sites)
        for prefixes, left, least in _STAGES:
            if left == 1:
                masks, tried = self._with_both(mask, masks, tried)
            chosen, at = torch.cat([mask[None], masks]), torch.cat([values[None], tried])
            score = self._scores(self._problem.sample(prefixes, self._seed), price, chosen, at)
            best = score[1:].argsort()[:left]
            best = best[score[1:][best] < score[0] - least]
            masks, tried = masks[best], tried[best]
            if not len(best):
                return _Walk(mask, values, price, score[0], over=True)
        return _Walk(masks[0], tried[0], price, score.min())

    def _with_both(
        self, mask: SetMask, masks: HardMasks, values: RunValues
    ) -> tuple[Bool[Tensor, "sets directions units"], Float[Tensor, "sets directions coordinates"]]:
        """The best two swaps, and the best one together with the best of those that exchange other units."""
        changes = masks ^ mask
        other = (~(changes & changes[:1]).flatten(1).any(1)).nonzero()[:1, 0]
        at = torch.where(spread(self._problem.space, changes[other]), values[other], values[:1])
        return torch.cat([masks[:2], masks[:1] ^ changes[other]]), torch.cat([values[:2], at])

    def _swaps(
        self, mask: SetMask, values: SetValues, price: Price, sites: range
    ) -> tuple[HardMasks, RunValues]:
        """The sets after each swap of a unit for one of those of these sites with the highest first-order gain in its
        place."""
        problem, search = self._problem, self._search
        units = mask.any(0).nonzero()[:, 0]
        row = torch.arange(len(units), device=mask.device)
        without = mask.repeat(len(units), 1, 1)
        without[row, :, units] = False
        prices = price.expand(len(units), -1)
        sample = problem.sample(search.sample, self._seed)
        at = values.expand(len(units), -1, -1)
        gains = gains_at(sample, self._terms, prices, without, at, self._ends, sites.start)
        acting = mask[:, units].T[..., None]  # a new unit acts in the directions of the old one
        gain = (gains.amax(0) * acting).sum(1)
        gain[:, units] = -torch.inf
        gain[:, (self._site_of < sites.start) | (self._site_of >= sites.stop)] = -torch.inf
        each = min(max(search.candidates, _FEWEST // len(units)), int((gain[0] > -torch.inf).sum()))
        in_ = gain.topk(each).indices.flatten()
        out = row.repeat_interleave(each)
        swap = torch.arange(len(in_), device=mask.device)
        masks, tried = without[out], values.repeat(len(in_), 1, 1)
        masks[swap, :, in_] = mask[:, units[out]].T
        where = self._places[in_]
        ends = torch.where(spread(problem.space, gains[0] > gains[1]), *self._ends)
        tried[swap[:, None], :, where] = ends[out[:, None], :, where]
        return masks, tried

    @torch.no_grad()
    def _scores(
        self, sample: Problem, price: Price, masks: HardMasks, values: RunValues
    ) -> Float[Tensor, " sets"]:
        """The score of each set. Sets whose first units are in one site are scored together, because a pass can begin
        there."""
        at_once, terms = sample.runs_at_once(), self._terms
        first, found = self._first_sites(masks), torch.empty(len(masks), device=masks.device)
        for site in first.unique():
            for some in (first == site).nonzero()[:, 0].split(at_once):
                prices = price.expand(len(some), -1)
                scored = score_runs(sample, terms, prices, masks[some].float(), values[some])
                found[some] = scored.score.sum(1)
        return found

    def _first_sites(self, masks: HardMasks) -> Int[Tensor, " sets"]:
        """The number of the first site with a unit of each set."""
        return self._site_of[masks.any(1).int().argmax(1)]
