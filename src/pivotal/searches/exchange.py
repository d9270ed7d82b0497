"""The default search: rank units by gradients, then swap single units while that lowers the loss."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.models.edits import dense, spread
from pivotal.options import check_least
from pivotal.problem.problem import Problem
from pivotal.records.intervention import Intervention
from pivotal.searches.attribution import LONGER, Attribution
from pivotal.searches.base import (
    Attempt,
    Discovery,
    Progress,
    interventions_of,
    most_units,
    require,
)
from pivotal.searches.tools import HardMasks, RunValues, SetMask, SetValues
from pivotal.searches.tools.hardening import Hardening
from pivotal.searches.tools.refit import FITTED, RATE, Refit
from pivotal.searches.tools.trials import better_ends, gains_at, places_of, score_runs

_COMPARED = 256
"""Number of distinct prefixes on which the best swaps are compared with the set."""
_FEWEST = 16
"""The least number of swaps that are scored in a round."""
_GAIN = 0.005
"""A swap must lower the loss by more than this: less is a difference between samples of pairs."""


@dataclass(frozen=True)
class Exchange(Attribution):
    """Begin with the units that `attribution` ranks first. Fit their values for a few updates. First-order gains beside
    the other units of the set then propose swaps of one unit, and masked runs score them. Make the best swap if it
    lowers the loss, and repeat. At the end, fit the values once more and remove units that add nothing.

    Nothing is random but the training pairs that a run draws: runs differ only in their samples.
    """

    name: ClassVar[str] = "exchange"
    summary: ClassVar[str] = (
        "the default: units ranked by gradients, then swapped one at a time while that lowers the loss"
    )

    start: str = ""
    """Folder of an intervention to start from; units beyond max_units are removed at the end. By default the search
    starts from the units that rank first."""
    rounds: int = 6
    """Maximum number of swaps."""
    candidates: int = 4
    """Replacements of each unit that masked runs score in a round: those with the highest first-order gain. A set of
    fewer than four units has sixteen swaps in all."""
    finalists: int = 4
    """Swaps that are compared with the set on more prefixes."""
    sample: int = 64
    """Distinct prefixes on which swaps are proposed and scored; each run draws its own. 0 uses all."""
    polish: int = 8
    """Updates of the values before the first round and after each swap."""
    prune: float = 0.002
    """Remove a unit if that loses at most this share of the flips on training pairs. Negative keeps all units."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, rounds=0, candidates=1, finalists=1, sample=0, polish=0)
        require(self, "a share of the flips, below 1", lambda x: x < 1, "prune")

    def check_there(self) -> None:
        self._start()

    def start_fingerprint(self) -> str | None:
        start = self._start()
        return None if start is None else start.fingerprint()

    def check(self, problem: Problem, runs: int, seed: int) -> None:
        super().check(problem, runs, seed)
        if (start := self._start()) is not None:
            self._check_start(start, problem)

    def _solve(self, problem: Problem, attempt: Attempt) -> Discovery:
        state = attempt.load()
        if state is None:
            walks, done = self._begin(problem, attempt), 0
        else:
            walks, done = [_Walk.restored(saved, problem) for saved in state["walks"]], state["round"]
        steps = [_Step(self, problem, attempt.seed + run) for run in range(attempt.runs)]
        while done < self.rounds and not all(walk.over for walk in walks):
            walks = [walk if walk.over else step(walk) for step, walk in zip(steps, walks, strict=True)]
            done += 1
            losses = [float(walk.score) for walk in walks]
            units = [float(walk.mask.any(0).sum()) for walk in walks]
            attempt.report(Progress("exchange", done, self.rounds, losses, units, []))
            attempt.between_steps(partial(_state, problem, walks, done))
        budget = most_units(self.max_units, problem)
        return self.hardening.run(problem, None, *_masks_and_values(walks), budget, attempt)

    def _begin(self, problem: Problem, attempt: Attempt) -> list[_Walk]:
        """The first set of each run."""
        start, size = self._start(), most_units(self.max_units, problem)
        price = self.terms.first_price(problem)
        walks = []
        for run, (score, values) in enumerate(self.ranked(problem, attempt)):
            mask = torch.zeros(len(problem.labels), len(problem.space), dtype=torch.bool, device=score.device)
            mask[:, score.topk(size).indices] = True
            ends = values
            if problem.values == "unbounded":
                ends = better_ends(problem.sample(self.prefixes, attempt.seed + run), self.terms)
            if start is not None:
                mask, values = (part[0] for part in dense(start, problem.space, score.device))
            everyone = bool(mask.any(0).all())
            walks.append(_Walk(mask.bool(), values, ends, price, torch.tensor(torch.inf), over=everyone))
        return walks

    def fit(self, updates: int) -> Refit:
        """A fit of values with so many updates, or more of them under a bound."""
        if self.terms.bounded:
            return Refit(self.terms, LONGER * updates, batch=2 * self.batch)
        return Refit(self.terms, updates, RATE, self.batch, looks=1, positions=self.batch)

    @property
    def hardening(self) -> Hardening:
        """The last fit, and the removal of units."""
        updates = LONGER * self.refit if self.terms.bounded else self.refit
        return Hardening(self.terms, updates, self.prune, self.batch, shared=True, quick=True)

    def _start(self) -> Intervention | None:
        return Intervention.load(Path(self.start)) if self.start else None

    def _check_start(self, start: Intervention, problem: Problem) -> None:
        start.check_model(problem.model.name, problem.model.fingerprint())
        if start.steps != problem.steps or start.directions != problem.labels:
            raise PivotalError(
                f"An exchange must start from an intervention for the same question, but the intervention in "
                f"{self.start} is for {start.steps} step and {' / '.join(start.directions)}. Choose the same steps "
                "and labels."
            )


@dataclass(frozen=True)
class _Walk:
    """The set of one run between two rounds."""

    mask: SetMask
    values: SetValues
    ends: SetValues
    """What units outside the set are set to when they are tried."""
    price: Float[Tensor, " bounds"]
    score: Float[Tensor, ""]
    """The loss of the set where it was last compared with its swaps."""
    over: bool = False
    """Whether no swap lowers the loss. A set of all units has no swaps."""

    @staticmethod
    def restored(saved: dict[str, Any], problem: Problem) -> _Walk:
        device = problem.model.device
        return _Walk(**{key: part.to(device) if key != "over" else part for key, part in saved.items()})


def _state(problem: Problem, walks: list[_Walk], done: int) -> dict[str, Any]:
    found = interventions_of(problem, *_masks_and_values(walks))
    return {"interventions": found, "walks": [vars(walk) for walk in walks], "round": done}


def _masks_and_values(walks: list[_Walk]) -> tuple[HardMasks, RunValues]:
    return torch.stack([walk.mask for walk in walks]), torch.stack([walk.values for walk in walks])


class _Step:
    """One round of one run: fit the values, propose swaps, and make the best one if it lowers the loss."""

    def __init__(self, search: Exchange, problem: Problem, seed: int) -> None:
        self._search, self._problem, self._seed = search, problem, seed
        self._places = places_of(problem.space, problem.model.device)

    def __call__(self, walk: _Walk) -> _Walk:
        search, problem = self._search, self._problem
        values, price = walk.values, walk.price
        if search.polish:
            part = problem.sample(0 if search.terms.bounded else FITTED, self._seed)
            fitted = search.fit(search.polish).fit(
                part, walk.mask[None].float(), values[None], seed=self._seed
            )
            values, price = fitted.values[0], fitted.price[0]
        masks, tried = self._swaps(walk, values, price)
        sample = problem.sample(search.sample, self._seed)
        best = self._scores(sample, price, masks, tried).argsort()[: search.finalists]
        chosen, at = torch.cat([walk.mask[None], masks[best]]), torch.cat([values[None], tried[best]])
        score = self._scores(problem.sample(_COMPARED, self._seed), price, chosen, at)
        least = int(score.argmin())
        over = not score[least] < score[0] - _GAIN
        least = 0 if over else least
        return _Walk(chosen[least], at[least], walk.ends, price, score[least], over)

    def _swaps(
        self, walk: _Walk, values: SetValues, price: Float[Tensor, " bounds"]
    ) -> tuple[HardMasks, RunValues]:
        """The sets after each swap of a unit for one of those with the highest first-order gain in its place."""
        problem, search, mask = self._problem, self._search, walk.mask
        units = mask.any(0).nonzero()[:, 0]
        row = torch.arange(len(units), device=mask.device)
        without = mask.repeat(len(units), 1, 1)
        without[row, :, units] = False
        prices = price.expand(len(units), -1)
        at = torch.where(spread(problem.space, mask), values, walk.ends).expand(len(units), -1, -1)
        sample = problem.sample(search.sample, self._seed)
        acting = mask[:, units].T[..., None]  # a new unit acts in the directions of the old one
        gain = (gains_at(sample, search.terms, prices, without, at) * acting).sum(1)
        gain[:, units] = -torch.inf
        each = min(max(search.candidates, _FEWEST // len(units)), len(problem.space) - len(units))
        in_ = gain.topk(each).indices.flatten()
        out = row.repeat_interleave(each)
        swap = torch.arange(len(in_), device=mask.device)
        masks, tried = without[out], values.repeat(len(in_), 1, 1)
        masks[swap, :, in_] = mask[:, units[out]].T
        where = self._places[in_]
        tried[swap[:, None], :, where] = walk.ends[:, where].permute(1, 2, 0)
        return masks, tried

    @torch.no_grad()
    def _scores(
        self, sample: Problem, price: Float[Tensor, " bounds"], masks: HardMasks, values: RunValues
    ) -> Float[Tensor, " sets"]:
        """The score of each set. Sets whose first units are in one site are scored together, because a pass can begin
        there."""
        space, at_once, terms = sample.space, sample.runs_at_once(), self._search.terms
        ends = torch.tensor([site.width for site in space.sites], device=masks.device).cumsum(0)
        first = torch.bucketize(masks.any(1).int().argmax(1), ends, right=True)
        found = torch.empty(len(masks), device=masks.device)
        for site in first.unique():
            for some in (first == site).nonzero()[:, 0].split(at_once):
                prices = price.expand(len(some), -1)
                scored = score_runs(sample, terms, prices, masks[some].float(), values[some])
                found[some] = scored.score.sum(1)
        return found
