"""Forward selection: the unit that helps most, then the one that helps most beside it, and so on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.problem import Problem
from pivotal.refit import Fitted, Refit
from pivotal.searches.base import Checkpoint, Clock, Cost, Discovery, Point, Progress, budget_of
from pivotal.searches.selection import Selection
from pivotal.trials import first_order, grid_of, score_additions, screened


@dataclass(frozen=True)
class Greedy(Selection):
    """Grow sets one unit at a time. First-order gains say which units to look at, masked runs at several values say
    what each is worth beside the units that are there, and the values of all are learned anew after each addition."""

    name: ClassVar[str] = "greedy"
    summary: ClassVar[str] = (
        "forward selection: every addition scored by masked runs, values refitted after each"
    )
    presets: ClassVar[dict[str, dict[str, object]]] = {"exact": {"candidates": 0}}

    beam: int = 3
    """How many sets of each size are kept and grown further."""
    candidates: int = 48
    """Units scored by masked runs at each addition, those of the highest first-order gain; 0 scores all."""
    points: int = 6
    """Values at which a candidate is scored in each direction."""
    sample: int = 96
    """Distinct prefixes on which candidates are scored; each run draws its own. 0 takes all."""
    polish: int = 40
    """Updates of the values after an addition."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("beam", 1), ("candidates", 0), ("points", 3), ("sample", 0), ("polish", 1)):
            if getattr(self, name) < least:
                raise PivotalError(f"{name} must be {least} or more, but it is {getattr(self, name)}.")

    def solve(
        self,
        problem: Problem,
        *,
        runs: int = 1,
        seed: int = 0,
        progress: Callable[[Progress], None] | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Discovery:
        self.check(problem, runs, seed)
        size = budget_of(self.max_units, len(problem.space))
        *_, last = self.frontier(problem, [size], runs=runs, seed=seed, progress=progress)
        return last.found

    def frontier(
        self,
        problem: Problem,
        sizes: Sequence[int],
        *,
        runs: int = 1,
        seed: int = 0,
        progress: Callable[[Progress], None] | None = None,
    ) -> Iterator[Point]:
        """Every size is met on the way to the largest."""
        grown = Cost()
        beams = [_Beam(self, problem, seed + run) for run in range(runs)]
        refit = Refit(self.terms, self.polish, batch=self.batch)
        for size in range(1, max(sizes) + 1):
            clock = Clock(problem)
            proposed = [beam.propose() for beam in beams]
            mask, values = (torch.cat(part) for part in zip(*proposed, strict=True))
            fitted = refit.fit(problem, mask.float(), values, seed=seed)
            start = 0
            for beam, (own, _) in zip(beams, proposed, strict=True):
                beam.keep(own, fitted.part(slice(start, start + len(own))))
                start += len(own)
            grown += clock.read()
            if progress is not None:
                losses, flips = [b.score[0].item() for b in beams], [b.accuracy[0].item() for b in beams]
                progress(Progress("grow", size, max(sizes), losses, [float(size)] * runs, flips))
            if size in sizes:
                clock = Clock(problem)
                mask = torch.stack([beam.mask[0] for beam in beams])
                values = torch.stack([beam.values[0] for beam in beams])
                found = self.conclude(problem, mask, values, seed, progress)
                yield Point(size, found, grown + clock.read())


class _Beam:
    """The best sets of one size, best first, of one run."""

    def __init__(self, search: Greedy, problem: Problem, seed: int) -> None:
        self._search, self._problem, self._seed = search, problem, seed
        self._sample = problem.sample(search.sample, seed)
        self._grid = grid_of(problem, search.points)
        shape = (1, len(problem.labels), len(problem.space))
        device = problem.model.device
        self.mask: Bool[Tensor, "sets directions units"] = torch.zeros(shape, dtype=torch.bool, device=device)
        self.values: Float[Tensor, "sets directions units"] = torch.zeros(shape, device=device)
        self.score: Float[Tensor, " sets"] = torch.zeros(1, device=device)
        self.accuracy: Float[Tensor, " sets"] = torch.zeros(1, device=device)
        self._price = torch.full((1,), search.terms.first_price, device=device)

    def propose(self) -> tuple[Bool[Tensor, "sets directions units"], Float[Tensor, "sets directions units"]]:
        """Sets with one unit more, and the values at which they did best."""
        search, terms = self._search, self._search.terms
        gain = first_order(self._sample, terms, self._price, self.mask, self.values, self._grid)
        tried = screened(gain, search.candidates)
        found = score_additions(self._sample, terms, self._price, self.mask, self.values, tried, self._grid)
        return self._distinct(found.score, tried, found.values)

    def keep(self, mask: Bool[Tensor, "sets directions units"], fitted: Fitted) -> None:
        """The best of what was proposed, once its values are fitted."""
        order = fitted.score.argsort()[: self._search.beam]
        self.mask, fitted = mask[order], fitted.part(order)
        self.values, self._price, self.score = fitted.values, fitted.price, fitted.score
        with torch.no_grad():
            self.accuracy = self._sample.run(self.mask.float(), self.values).flipped().float().mean(1)

    def _distinct(
        self, score: Tensor, tried: Tensor, at: Tensor
    ) -> tuple[Bool[Tensor, "sets directions units"], Float[Tensor, "sets directions units"]]:
        """The best grown sets, twice as many as are kept: two sets may grow into the same one."""
        seen: set[frozenset[int]] = set()
        masks, values = [], []
        for flat in score.flatten().argsort().tolist():
            parent, which = divmod(flat, score.shape[1])
            unit = int(tried[parent, which])
            units = frozenset([*self.mask[parent, 0].nonzero()[:, 0].tolist(), unit])
            if units in seen:
                continue
            seen.add(units)
            mask, value = self.mask[parent].clone(), self.values[parent].clone()
            mask[:, unit], value[:, unit] = True, at[parent, which]
            masks.append(mask)
            values.append(value)
            if len(seen) == 2 * self._search.beam:
                break
        return torch.stack(masks), torch.stack(values)
