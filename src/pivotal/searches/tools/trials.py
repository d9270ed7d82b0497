"""Score sets with one more unit: many sets, candidates and values are the runs of one masked pass."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pivotal.models.edits import gathered, spread, touched
from pivotal.problem.objective import Terms
from pivotal.problem.problem import Problem
from pivotal.searches.tools import Grid, HardMasks, Prices, RunValues, SetValues, SoftMasks
from pivotal.units import UnitSpace

_KL_NODES = 32
_REACH = 8.0
"""The largest trial value of a unit without bounds, in standard deviations from its mean."""
_SLIGHT = 2.0**-13
"""The mask entry at which gains are taken: too small to change a prediction, and a power of two, so that to divide by
it is exact."""
_PUSH = 8.0
"""The largest trial value of a unit of several coordinates, as a multiple of the difference of its means."""


@dataclass(frozen=True)
class Scores:
    """The scores of sets of units, split into the contributions of the two directions.

    A sentence has one direction, so that the value of a unit can be chosen for each direction separately.
    """

    score: Float[Tensor, "*sets directions"]
    """The loss plus KL and the other bounded costs times their prices; lower is better."""
    accuracy: Float[Tensor, "*sets directions"]

    def best(self, dim: int) -> tuple[Scores, Int[Tensor, "*sets directions"]]:
        """The best scores along a dimension for each direction, and their indices."""
        where = self.score.argmin(dim, keepdim=True)
        parts = (part.gather(dim, where).squeeze(dim) for part in (self.score, self.accuracy))
        return Scores(*parts), where.squeeze(dim)


@dataclass(frozen=True)
class Additions:
    """Sets with one more unit, each at the best of its trial values."""

    score: Float[Tensor, "runs candidates"]
    accuracy: Float[Tensor, "runs candidates"]
    values: Float[Tensor, "runs candidates directions size"]
    """The values of the new unit's coordinates. `places_of` gives their indices."""


def places_of(space: UnitSpace, device: torch.device) -> Int[Tensor, "units size"]:
    """The indices of each unit's coordinates. If units differ in size, the last index of a smaller unit is repeated;
    writing the same value twice has no effect."""
    largest = max(site.size for site in space.sites)
    first, parts = 0, []
    for site in space.sites:
        within = torch.arange(largest, device=device).clamp(max=site.size - 1)
        parts.append(first + site.size * torch.arange(site.width, device=device)[:, None] + within)
        first += site.coordinates
    return torch.cat(parts)


def grid_of(problem: Problem, points: int) -> Grid:
    """The values to try: evenly spaced over the range of a unit, then its mean under the target label.

    A unit of several coordinates is tried on the line from its own mean through its mean under the target label. An
    equal shift of all its coordinates would give states that never occur. An interchange has one value only.
    """
    if problem.values == "interchange":
        return problem.counterfactual_means.expand(2, -1, -1)
    least, most = problem.bounds()
    seen = problem.measure_activations()
    middle = (seen.own + seen.target).mean(0) / 2
    low = torch.where(least.isfinite(), least, middle - _REACH * seen.scale)
    high = torch.where(most.isfinite(), most, middle + _REACH * seen.scale)
    share = torch.linspace(0, 1, points - 1, device=low.device)[:, None]
    even = low + share * (high - low)
    grid = torch.cat([even[:, None].expand(-1, len(problem.labels), -1), seen.target[None]])
    for site in problem.space.sites:
        if site.size > 1:
            where = problem.space.coordinates_of(site.name)
            own, target = seen.own[:, where], seen.target[:, where]
            grid[:-1, :, where] = own + _PUSH * share[..., None] * (target - own)
    return grid.clamp(least, most)


def ends_of(grid: Grid) -> tuple[SetValues, SetValues]:
    """The two ends of the evenly spaced part of a grid."""
    return grid[0], grid[-2]


def alone(
    problem: Problem, terms: Terms, ends: tuple[SetValues, SetValues] | None = None, first: int = 0
) -> tuple[Float[Tensor, " units"], SetValues]:
    """The first-order gain of each unit by itself, and the end of its range with the larger one in each direction: of
    the sites from `first` on. `ends` are those of the ranges, if they are known."""
    shape = (1, len(problem.labels), len(problem.space))
    nothing = torch.zeros(shape, dtype=torch.bool, device=problem.model.device)
    ends = ends or ends_of(grid_of(problem, points=3))
    gains = gains_at(problem, terms, terms.weights(problem)[None], nothing, ends[0][None], ends, first)[:, 0]
    return gains.amax(0).sum(0), torch.where(spread(problem.space, gains[0] > gains[1]), *ends)


def first_order(
    problem: Problem,
    terms: Terms,
    price: Prices,
    mask: HardMasks,
    values: RunValues,
    grid: Grid,
    active: Bool[Tensor, "runs directions"] | None = None,
) -> Float[Tensor, "runs units"]:
    """The first-order gain of each unit, in one pass: the decrease of the loss if it were linear in the mask.

    `active` gives the directions in which the new unit is active; by default both. The slope is linear in the value,
    so that the two ends of the grid suffice. Each direction takes the better end.
    """
    gain = gains_at(problem, terms, price, mask, values, ends_of(grid)).amax(0)
    if active is not None:
        gain = gain * active[..., None]
    return gain.sum(1).masked_fill(mask.any(1), -torch.inf)


def gains_at(
    problem: Problem,
    terms: Terms,
    price: Prices,
    mask: HardMasks,
    values: RunValues,
    ends: tuple[SetValues, SetValues],
    first: int = 0,
) -> Float[Tensor, "ends runs directions units"]:
    """The first-order gain of each unit outside each set at two values, in one pass: of the sites from `first` on, and
    zero before.

    The slope of the loss by a mask entry m is linear in the value. At a slight m the gradients by the mask and, divided
    by m, by the value give it at every value.
    """
    space, used = problem.space, touched(problem.space, mask.float())
    sites = tuple(site for place, site in enumerate(space.sites) if place >= first or site in used)
    drawn = terms.draw(problem, torch.Generator().manual_seed(0), _KL_NODES)
    middle = torch.where(spread(space, mask), values, (ends[0] + ends[1]) / 2)

    def gain(some: Int[Tensor, " some"]) -> Float[Tensor, "ends some directions units"]:
        slight = mask[some].float().clamp(min=_SLIGHT).requires_grad_()
        at = middle[some].requires_grad_()
        outcome = problem.run(slight, at, sites=sites)
        costs = terms.costs(problem, outcome, drawn)
        loss = terms.loss(outcome, drawn) + (price[some] * costs.abs()).sum(1)
        by_mask, by_value = torch.autograd.grad(loss.sum(), (slight, at), materialize_grads=True)
        by_value = by_value / spread(space, slight.detach())
        return -torch.stack([by_mask + gathered(space, (end - at.detach()) * by_value) for end in ends])

    runs = torch.arange(len(mask), device=mask.device)
    parts = runs.split(problem.runs_at_once(learning=True))
    return torch.cat([problem.as_memory_allows(partial(gain, some)) for some in parts], 1)


def finalists(
    score: Float[Tensor, " runs"], accuracy: Float[Tensor, " runs"], n: int
) -> Int[Tensor, " finalists"]:
    """The sets whose values should be fitted: two thirds by their score, the others by their flips."""
    by_score = score.argsort()[: n - n // 3]
    rest = accuracy.clone()
    rest[by_score] = -1.0
    return torch.cat(
        [by_score, rest.argsort(descending=True, stable=True)[: min(n // 3, len(rest) - len(by_score))]]
    )


def screened(
    gain: Float[Tensor, "runs units"], candidates: int, *, at_least: int = 0
) -> Int[Tensor, "runs candidates"]:
    """The units outside each set with the highest first-order gain; `candidates` = 0 selects all of them.

    With few sets, each gets more candidates, `at_least` in total: gains predict least for the empty set.
    """
    candidates = candidates and max(candidates, at_least // len(gain))
    room = int((gain > -torch.inf).sum(1).min())
    return gain.topk(min(candidates or room, room)).indices


@torch.no_grad()
def score_additions(
    problem: Problem,
    terms: Terms,
    price: Prices,
    mask: HardMasks,
    values: RunValues,
    candidates: Int[Tensor, "runs candidates"],
    grid: Grid,
    active: Bool[Tensor, "runs directions"] | None = None,
) -> Additions:
    """Score every set with each of its candidates at every value of the grid.

    `active` gives the directions in which the new unit is active; by default both. A sentence has one direction, so
    the best value is chosen for each direction separately. One run per value covers all combinations.
    """
    sets, tried = candidates.shape
    points, directions, _ = grid.shape
    places = places_of(problem.space, mask.device)
    rows = torch.cartesian_prod(torch.arange(sets), torch.arange(tried), torch.arange(points)).to(mask.device)
    parts = []
    for part in rows.split(problem.runs_at_once()):
        chosen, which, point = part.unbind(1)
        unit = candidates[chosen, which]
        run = torch.arange(len(part), device=mask.device)
        more, at = mask[chosen].float(), values[chosen].clone()
        more[run, :, unit] = 1.0 if active is None else active[chosen].float()
        where = places[unit]
        at[run[:, None], :, where] = grid[point[:, None], :, where]
        parts.append(score_runs(problem, terms, price[chosen], more, at))
    shape = (sets, tried, points, directions)
    scores = Scores(
        torch.cat([part.score for part in parts]).view(shape),
        torch.cat([part.accuracy for part in parts]).view(shape),
    )
    best, point = scores.best(2)
    direction = torch.arange(directions, device=mask.device)[:, None]
    picked = grid[point[..., None], direction, places[candidates][..., None, :]]
    return Additions(best.score.sum(-1), best.accuracy.sum(-1), picked)


def placed(
    space: UnitSpace, units: Int[Tensor, "runs k"], grid: Grid, point: Int[Tensor, "runs directions k"]
) -> tuple[SoftMasks, RunValues]:
    """Mask and values of sets whose units are set to points of a grid."""
    sets, directions, _ = point.shape
    where = places_of(space, units.device)[units][:, None]
    direction = torch.arange(directions, device=units.device)[:, None, None]
    at = grid[point[..., None], direction, where].flatten(2)
    mask = torch.zeros(sets, directions, len(space), device=units.device)
    values = torch.zeros(sets, directions, space.coordinates, device=units.device)
    mask.scatter_(2, units[:, None].expand(-1, directions, -1), 1.0)
    values.scatter_(2, where.expand(-1, directions, -1, -1).flatten(2), at)
    return mask, values


def score_runs(problem: Problem, terms: Terms, price: Prices, mask: SoftMasks, values: RunValues) -> Scores:
    outcome = problem.run(mask, values)
    labels = torch.arange(values.shape[1], device=mask.device)
    towards = (torch.as_tensor(problem.direction, device=mask.device)[:, None] == labels).float()
    share = towards / len(problem) if outcome.weight is None else towards * outcome.weight[:, None]
    # All trials measure KL at the same positions, so that only the units differ.
    drawn = terms.draw(problem, torch.Generator().manual_seed(0), _KL_NODES)
    score = terms.by_direction(outcome, share, drawn)
    if terms.wants_kl and drawn is not None:
        score = score + price[:, :1] * problem.untouched.by_direction(outcome.states, drawn, len(labels))
    if problem.preferences.names:
        change = problem.preferences.change(outcome.states)
        score = score + problem.preferences.by_direction(price[:, 1:] * change.abs()).sum(1)
    return Scores(score, outcome.flipped().float() @ share)
