"""Forward selection: grow a set by the unit that lowers the loss most, one unit at a time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from pivotal.options import check_least
from pivotal.problem.problem import Problem
from pivotal.searches.base import Attempt, Discovery, Progress, interventions_of, most_units
from pivotal.searches.choose_then_fit import Selection
from pivotal.searches.tools.refit import Fitted, Proposed, Refit
from pivotal.searches.tools.trials import first_order, grid_of, places_of, score_additions, screened


@dataclass(frozen=True)
class Greedy(Selection):
    """Grow sets one unit at a time. First-order gains select the candidates. Masked runs at several values score each
    candidate together with the units of the set. The values of all units are refitted after each addition."""

    name: ClassVar[str] = "greedy"
    summary: ClassVar[str] = (
        "forward selection: every addition scored by masked runs, values refitted after each"
    )
    presets: ClassVar[dict[str, dict[str, object]]] = {"exact": {"candidates": 0}}

    beam: int = 2
    """Number of sets of each size that are kept and grown further."""
    candidates: int = 24
    """Candidates scored by masked runs for each set: those with the highest first-order gain. The empty set gets four
    times as many. 0 scores all."""
    points: int = 5
    """Number of values at which each candidate is scored in each direction."""
    sample: int = 48
    """Distinct prefixes on which candidates are scored; each run draws its own. 0 uses all."""
    polish: int = 30
    """Updates of the values after each addition."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, beam=1, candidates=0, points=3, sample=0, polish=1)

    def _solve(self, problem: Problem, attempt: Attempt) -> Discovery:
        size = most_units(self.max_units, problem)
        beams, grown = self._begin(problem, attempt), 0
        if (state := attempt.load()) is not None:
            grown = state["grown"]
            for beam, saved in zip(beams, state["beams"], strict=True):
                beam.restore(saved)
        while grown < size:
            self._grow(problem, beams, size, attempt)
            grown += 1
            attempt.between_steps(partial(_state, problem, beams, grown))
        return self.conclude(problem, *_best(beams), attempt)

    def _begin(self, problem: Problem, attempt: Attempt) -> list[_Beam]:
        return [_Beam(self, problem, attempt.seed + run) for run in range(attempt.runs)]

    def _grow(self, problem: Problem, beams: list[_Beam], last: int, attempt: Attempt) -> None:
        """Add one unit to every set. The values of all runs are fitted together."""
        refit = Refit(self.terms, self.polish, batch=self.batch)
        proposed = [beam.propose() for beam in beams]
        fitted = refit.fit_together(problem, proposed, seed=attempt.seed)
        flips = [beam.keep(own) for beam, own in zip(beams, fitted, strict=True)]
        size = int(beams[0].sets.mask[0, 0].sum())
        losses = [float(beam.sets.score[0]) for beam in beams]
        attempt.report(Progress("grow", size, last, losses, [float(size)] * len(beams), flips))


class _Beam:
    """The best sets of one run for one size, the best first."""

    def __init__(self, search: Greedy, problem: Problem, seed: int) -> None:
        self._search, self._problem, self._seed = search, problem, seed
        self._sample = problem.sample(search.sample, seed)
        self._grid = grid_of(problem, search.points)
        device, directions, space = problem.model.device, len(problem.labels), problem.space
        self._places = places_of(space, device)
        self.sets = Fitted(
            torch.zeros(1, directions, len(space), dtype=torch.bool, device=device),
            torch.zeros(1, directions, space.coordinates, device=device),
            search.terms.first_price(problem)[None],
            torch.full((1,), torch.inf, device=device),
        )
        self.best = self.sets
        """The best set of any size: under a bound on KL a larger set can be worse."""

    def propose(self) -> Proposed:
        """The best sets with one more unit, and their values."""
        search, terms, sets = self._search, self._search.terms, self.sets
        gain = first_order(self._sample, terms, sets.price, sets.mask, sets.values, self._grid)
        tried = screened(gain, search.candidates, at_least=4 * search.candidates)
        found = score_additions(self._sample, terms, sets.price, sets.mask, sets.values, tried, self._grid)
        return self._distinct(found.score, tried, found.values)

    @torch.no_grad()
    def keep(self, fitted: Fitted) -> float:
        """Keep the best of the proposed sets after their values were fitted. Return the flips of the best one."""
        self.sets = fitted.part(fitted.score.argsort()[: self._search.beam])
        if self.sets.score[0] < self.best.score[0]:
            self.best = self.sets.part([0])
        return float(self._sample.run(self.sets.mask.float(), self.sets.values).flips()[0])

    def state(self) -> dict[str, Any]:
        return {"sets": self.sets.state(), "best": self.best.state()}

    def restore(self, state: dict[str, Any]) -> None:
        device = self._problem.model.device
        self.sets, self.best = (Fitted.restored(state[name], device) for name in ("sets", "best"))

    def _distinct(self, score: Tensor, tried: Tensor, at: Tensor) -> Proposed:
        """The best grown sets without duplicates. There are twice as many as `keep` keeps."""
        seen: set[frozenset[int]] = set()
        masks, values = [], []
        for flat in score.flatten().argsort().tolist():
            parent, which = divmod(flat, score.shape[1])
            unit = int(tried[parent, which])
            units = frozenset([*self.sets.mask[parent, 0].nonzero()[:, 0].tolist(), unit])
            if units in seen:
                continue
            seen.add(units)
            mask, value = self.sets.mask[parent].clone(), self.sets.values[parent].clone()
            mask[:, unit], value[:, self._places[unit]] = True, at[parent, which]
            masks.append(mask)
            values.append(value)
            if len(seen) == 2 * self._search.beam:
                break
        return torch.stack(masks), torch.stack(values)


def _best(beams: list[_Beam]) -> tuple[Tensor, Tensor]:
    """The mask and the values of the best set of each run."""
    return torch.cat([beam.best.mask for beam in beams]), torch.cat([beam.best.values for beam in beams])


def _state(problem: Problem, beams: list[_Beam], grown: int) -> dict[str, Any]:
    return {
        "grown": grown,
        "beams": [beam.state() for beam in beams],
        "interventions": interventions_of(problem, *_best(beams)),
    }
