"""What would one more unit bring? Scored for many sets, units and values at once, as the runs of a masked pass."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pivotal.models.edits import spread
from pivotal.problem.objective import Terms, loss_of
from pivotal.problem.problem import Problem
from pivotal.searches.tools.refit import bounds_of
from pivotal.units import UnitSpace

_KL_NODES = 32
_REACH = 8.0
"""How many standard deviations from its mean a unit without bounds is tried at."""
_PUSH = 8.0
"""How many times the way to the other label's mean a unit of several coordinates is tried at."""


@dataclass(frozen=True)
class Scores:
    """What sets of units do, split into what the sentences of each direction contribute to the mean: a sentence has
    one direction, so that the value of a unit in each can be chosen by itself."""

    score: Float[Tensor, "*sets directions"]
    """The loss, and KL at its price; less is better."""
    accuracy: Float[Tensor, "*sets directions"]

    def best(self, dim: int) -> tuple[Scores, Int[Tensor, "*sets directions"]]:
        """The best along a dimension, for each direction, and where it stands."""
        where = self.score.argmin(dim, keepdim=True)
        parts = (part.gather(dim, where).squeeze(dim) for part in (self.score, self.accuracy))
        return Scores(*parts), where.squeeze(dim)


@dataclass(frozen=True)
class Additions:
    """Sets with one unit more, each at the best of the values that were tried."""

    score: Float[Tensor, "sets candidates"]
    accuracy: Float[Tensor, "sets candidates"]
    values: Float[Tensor, "sets candidates directions size"]
    """Of the new unit's coordinates, which stand where `places_of` says."""


def places_of(space: UnitSpace, device: torch.device) -> Int[Tensor, "units size"]:
    """Where each unit's coordinates stand among those of all. Where units differ in size, a smaller one's last place is
    repeated: what is written there twice is the same."""
    largest = max(site.size for site in space.sites)
    first, parts = 0, []
    for site in space.sites:
        within = torch.arange(largest, device=device).clamp(max=site.size - 1)
        parts.append(first + site.size * torch.arange(site.width, device=device)[:, None] + within)
        first += site.coordinates
    return torch.cat(parts)


def grid_of(problem: Problem, points: int) -> Float[Tensor, "points directions coordinates"]:
    """Values to try: evenly over what a unit can reach, from one end to the other, and last the mean where the model
    prefers the label already. A unit of several coordinates is tried on the line from what it is to that mean, and
    beyond: to move all of them by as much would be no state that it ever has."""
    low, high = bounds_of(problem)
    seen = problem.measure_activations()
    middle = (seen.own + seen.target).mean(0) / 2
    low = torch.where(low.isfinite(), low, middle - _REACH * seen.scale)
    high = torch.where(high.isfinite(), high, middle + _REACH * seen.scale)
    share = torch.linspace(0, 1, points - 1, device=low.device)[:, None]
    even = low + share * (high - low)
    grid = torch.cat([even[:, None].expand(-1, len(problem.labels), -1), seen.target[None]])
    for site in problem.space.sites:
        if site.size > 1:
            where = problem.space.coordinates_of(site.name)
            own, target = seen.own[:, where], seen.target[:, where]
            grid[:-1, :, where] = own + _PUSH * share[..., None] * (target - own)
    return grid


def ends_of(
    grid: Float[Tensor, "points directions coordinates"],
) -> tuple[Float[Tensor, "directions coordinates"], Float[Tensor, "directions coordinates"]]:
    """The two ends of what a grid tries."""
    return grid[0], grid[-2]


def first_order(
    problem: Problem,
    terms: Terms,
    price: Float[Tensor, " sets"],
    mask: Bool[Tensor, "sets directions units"],
    values: Float[Tensor, "sets directions coordinates"],
    grid: Float[Tensor, "points directions coordinates"],
    active: Bool[Tensor, "sets directions"] | None = None,
) -> Float[Tensor, "sets units"]:
    """What adding each unit would take off the loss if the loss were linear in the mask: one pass for all units.
    `active` says in which directions the new unit would act, by default in all.

    The slope is itself linear in the value, so that only the two ends of the grid need be looked at; each direction
    has its own value and chooses for itself.
    """
    drawn = terms.draw(problem, torch.Generator().manual_seed(0), _KL_NODES)

    def slope(
        some: Int[Tensor, " some"], end: Float[Tensor, "directions coordinates"]
    ) -> Float[Tensor, "some directions units"]:
        slope_at = mask[some].float().requires_grad_()
        on = spread(problem.space, mask[some])
        outcome = problem.run(slope_at, torch.where(on, values[some], end))
        loss = terms.loss(outcome)
        if drawn is not None:
            loss = loss + price[some] * terms.kl(problem, outcome, drawn)
        return torch.autograd.grad(loss.sum(), slope_at)[0]

    parts = []
    for some in torch.arange(len(mask), device=mask.device).split(problem.runs_at_once(learning=True)):
        low, high = (problem.as_memory_allows(partial(slope, some, end)) for end in ends_of(grid))
        parts.append(torch.maximum(-low, -high))
    gain = torch.cat(parts)
    if active is not None:
        gain = gain * active[..., None]
    return gain.sum(1).masked_fill(mask.any(1), -torch.inf)


def finalists(
    score: Float[Tensor, " sets"], accuracy: Float[Tensor, " sets"], n: int
) -> Int[Tensor, " finalists"]:
    """Those worth a fit: two thirds by their score, the others by their flips, which a loss does not always follow."""
    by_score = score.argsort()[: n - n // 3]
    rest = accuracy.clone()
    rest[by_score] = -1.0
    return torch.cat(
        [by_score, rest.argsort(descending=True, stable=True)[: min(n // 3, len(rest) - len(by_score))]]
    )


def screened(
    gain: Float[Tensor, "sets units"], candidates: int, *, at_least: int = 0
) -> Int[Tensor, "sets candidates"]:
    """The units of the highest first-order gain that are not in the set; 0 means all of those. Where the sets are few,
    each has so many more that they come to `at_least` in all: slopes tell least where nothing is set yet."""
    candidates = candidates and max(candidates, at_least // len(gain))
    room = int((gain > -torch.inf).sum(1).min())
    return gain.topk(min(candidates or room, room)).indices


@torch.no_grad()
def score_additions(
    problem: Problem,
    terms: Terms,
    price: Float[Tensor, " sets"],
    mask: Bool[Tensor, "sets directions units"],
    values: Float[Tensor, "sets directions coordinates"],
    candidates: Int[Tensor, "sets candidates"],
    grid: Float[Tensor, "points directions coordinates"],
    active: Bool[Tensor, "sets directions"] | None = None,
) -> Additions:
    """Every set with every one of its candidates at every value of the grid; `active` says in which directions the
    new unit acts, by default in all.

    A sentence has one direction, so that the best value of each direction can be picked by itself: as many runs as
    there are values cover all their combinations.
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
    space: UnitSpace,
    units: Int[Tensor, "sets k"],
    grid: Float[Tensor, "points directions coordinates"],
    point: Int[Tensor, "sets directions k"],
) -> tuple[Float[Tensor, "sets directions units"], Float[Tensor, "sets directions coordinates"]]:
    """Mask and values of sets whose units stand at points of a grid."""
    sets, directions, _ = point.shape
    where = places_of(space, units.device)[units][:, None]
    direction = torch.arange(directions, device=units.device)[:, None, None]
    at = grid[point[..., None], direction, where].flatten(2)
    mask = torch.zeros(sets, directions, len(space), device=units.device)
    values = torch.zeros(sets, directions, space.coordinates, device=units.device)
    mask.scatter_(2, units[:, None].expand(-1, directions, -1), 1.0)
    values.scatter_(2, where.expand(-1, directions, -1, -1).flatten(2), at)
    return mask, values


def score_runs(
    problem: Problem,
    terms: Terms,
    price: Float[Tensor, " runs"],
    mask: Float[Tensor, "runs directions units"],
    values: Float[Tensor, "runs directions coordinates"],
) -> Scores:
    outcome = problem.run(mask, values)
    labels = torch.arange(values.shape[1], device=mask.device)
    share = (torch.as_tensor(problem.direction, device=mask.device)[:, None] == labels).float() / len(problem)
    score = loss_of(terms.objective, outcome.log_ratio, terms.margin) @ share
    if terms.wants_kl:
        # The same positions for all trials, so that only the units make the difference.
        nodes = problem.draw_positions(_KL_NODES, torch.Generator().manual_seed(0))
        direction = torch.as_tensor(problem.tree.direction[problem.tree.live], device=mask.device)[nodes]
        of = (direction[:, None] == labels).float() * problem.live_share / len(nodes)
        score = score + price[:, None] * (problem.kl(outcome.states, nodes).T @ of)
    return Scores(score, outcome.flipped().float() @ share)
