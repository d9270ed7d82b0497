"""The checks of what flips mean: natural values, counterfactual states, dose and paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pivotal.evidence.controls import matched_sets
from pivotal.evidence.examination import Examination, expected_of, flips_of, right_of, towards
from pivotal.evidence.intervals import change_of, clusters_of, share_of, shares_of
from pivotal.evidence.verdict import MOST_MOVED
from pivotal.models.base import LanguageModel
from pivotal.models.bases.edit import writes_of
from pivotal.models.edits import Sources, dense, spread
from pivotal.models.tree import Span
from pivotal.problem.problem import Problem
from pivotal.records.evidence import Dose, Interchange, Natural, Necessity, Paths, Share, UnitRange
from pivotal.units import Unit

DOSES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
_DOSED, _POSITIONS = 64, 128
"""The held-out prefixes of dose and response, and the positions of KL of doses and of an exchange."""
_HELD, _HELD_SETS = 256, 19
"""The held-out prefixes whose units are held, and the random sets."""
_FEW, _RESAMPLED = 32, 8
"""The prefixes on which random sets are held first, and on which units take states of eight other sentences."""
_WORST, _CLOSE = 5, 0.02
"""The five random sets that cost most accuracy on the few prefixes are held on all. If the units cost enough for the
check, so are the sets that cost about as much: at most two points less."""
_EXCHANGED = _FOLLOWED = _KEPT = 128
"""The held-out prefixes whose states are exchanged, those whose paths are followed, and those that are edited towards
the label that the model prefers."""


@torch.no_grad()
def natural_range(examination: Examination) -> Natural:
    """Score the intervention with each value clamped to the 1st and 99th percentile of the unit's states at the edited
    steps. If all values are there already, the scores are those of the intervention."""
    problem, (mask, values) = examination.problem, examination.edit
    inside = values.clamp(*problem.natural_range())
    same = bool(torch.where(spread(problem.space, mask) > 0, inside.isclose(values), True).all())
    outcome = examination.outcome if same else problem.run(mask, inside)
    clamped = examination if same else Examination(examination.intervention, problem, outcome=outcome)
    return Natural(
        ranges=_ranges(examination),
        flipped=clamped.share(clamped.flipped),
        by_direction=clamped.by_direction(clamped.flipped),
        kl=clamped.kl,
    )


def _ranges(examination: Examination) -> tuple[UnitRange, ...]:
    intervention, problem = examination.intervention, examination.problem
    if any(unit.size > 1 for unit in intervention.units):
        return ()
    lows, highs = problem.natural_range()
    ranges = []
    for i, unit in enumerate(intervention.units):
        (place,) = problem.space.places(unit)
        values = {label: row[i] for label, row in intervention.shown_values.items()}
        ranges.append(
            UnitRange(unit=str(unit), low=float(lows[place]), high=float(highs[place]), values=values)
        )
    return tuple(ranges)


@torch.no_grad()
def interchange(examination: Examination) -> Interchange | None:
    """Set the units, pair by pair, to what they are in the counterfactual prefix. None if no pair has a counterfactual
    prefix of the label to flip to that differs from its own prefix and that the model can read. An intervention that
    is an interchange is examined on all pairs, another one on a sample."""
    problem, intervention = examination.problem, examination.intervention
    exact = problem.values == "interchange"
    prefixes = 0 if exact else _EXCHANGED
    examined, whole = examination.sample(prefixes).matched, problem.whole
    sample = whole.sample(prefixes * len(whole) // len(problem))
    if examined is None:
        return None
    asked, outcome = examined.exchanged
    few, whole_site = outcome.flipped().cpu().numpy()
    kl, whole_kl = asked.untouched.mean(outcome.states, _drawn(asked)).tolist()
    mask, values = dense(intervention, asked.space, asked.model.device)
    fixed = examined.flipped
    if exact:
        fixed = asked.with_values("unbounded").run(mask, values).flipped()[0].cpu().numpy()
    targets = zip(sample.pairs, sample.direction.tolist(), strict=True)
    mistaken = [i for i, (pair, to) in enumerate(targets) if pair.prefix == pair.counterfactuals[to]]
    other = sample.restrict(mistaken).turned() if mistaken else None
    wrong, accuracy = None, examined.share(few)
    if other is not None and other.matched is not None:
        turned = other.matched[0].exchanging(intervention.sites)
        stays = turned.run(mask, values).flipped()[0].cpu().numpy()
        both = replace(asked.pairs, pairs=(*asked.pairs, *turned.pairs))
        wrong, accuracy = shares_of(turned.pairs)(stays), shares_of(both)(np.append(few, stays))
    return Interchange(
        wrong=wrong,
        accuracy=accuracy,
        flipped=examined.share(few),
        by_direction=examined.by_direction(few),
        whole_site=examined.share(whole_site),
        fixed=examined.share(fixed),
        kl=kl,
        whole_site_kl=whole_kl,
    )


@torch.no_grad()
def turned_away(examination: Examination) -> Share:
    """Edit towards the label that the untouched model prefers, which should change nothing."""
    part = examination.problem.sample(_KEPT)
    return shares_of(part.pairs)(flips_of(*towards(examination.edit, [1, 0]), part)[0])


@torch.no_grad()
def dose_response(examination: Examination) -> Dose:
    """Apply parts of an intervention. The edit is linear in the mask, so the mask is the dose."""
    part, (mask, values) = examination.problem.sample(_DOSED), examination.edit
    doses = torch.tensor(DOSES[1:], device=mask.device)[:, None, None]
    outcome = part.run(doses * mask, values.expand(len(doses), -1, -1))
    kl = part.untouched.mean(outcome.states, _drawn(part)).tolist()
    odds = -torch.cat([part.clean_log_ratio[None], outcome.log_ratio]).cpu().numpy()
    flips = (odds > 0).mean(1)
    flips[0] = 0.0  # by definition: the target is the word that the untouched model does not prefer
    upward = np.diff(odds[: DOSES.index(1.0) + 1], axis=0) > 0
    return Dose(
        doses=DOSES,
        flip_accuracy=tuple(flips.tolist()),
        kl=(0.0, *kl),
        half=_crossing(np.array(DOSES), flips, 0.5),
        monotone=float(upward.all(0).mean()),
        wrong_way=float((odds[DOSES.index(1.0)] < odds[0]).mean()),
    )


def _drawn(problem: Problem) -> Int[Tensor, " nodes"]:
    return problem.positions.draw(_POSITIONS, torch.Generator().manual_seed(0))


def _crossing(x: np.ndarray, y: np.ndarray, level: float) -> float | None:
    """The first x at which y, which starts below the level, reaches it; between two points by interpolation."""
    above = np.flatnonzero(y >= level)
    if not len(above):
        return None
    i = int(above[0])
    return float(x[i - 1] + (level - y[i - 1]) / (y[i] - y[i - 1]) * (x[i] - x[i - 1]))


@torch.no_grad()
def paths_of(examination: Examination) -> Paths:
    """How much of the change of the log odds needs no later layer and no later step."""
    examined = examination.sample(_FOLLOWED)
    part, intervention, (mask, values) = examined.problem, examination.intervention, examination.edit
    last = part.at_last_step()
    before = part.clean_log_ratio
    total = float((before - examined.outcome.log_ratio[0]).mean())
    # An edit at an earlier word reaches the last step only through later steps.
    edited = torch.as_tensor(part.tree.edited[part.tree.leaf], device=before.device)

    def share(log_ratio: Float[Tensor, " examples"]) -> float:
        return float(((before - log_ratio) * edited).mean()) / total if total else 0.0

    writes = writes_of(part.model, intervention.units)
    direct = None
    if writes is not None:
        given, active = torch.tensor(intervention.values)[None], torch.tensor(intervention.active)[None]
        straight = DirectEdit(part.model, intervention.units, writes, given, active, last.sources)
        direct = share(last.log_ratio_of(part.model.states(last.tensors.prepared, straight))[0])
    return Paths(change=total, last_step=share(last.run(mask, values).log_ratio[0]), direct=direct)


@torch.no_grad()
def necessity(examination: Examination, seed: int) -> Necessity:
    """What remains of the model's accuracy if the units say nothing. Pairs without an expected word count as expecting
    the word that the untouched model prefers."""
    intervention, part = examination.intervention, examination.problem.sample(_HELD, seed)
    mask, _ = examination.edit
    if part.values == "interchange":  # values that are held are no counterfactual states
        part = part.with_values("unbounded")
    few, clusters = part.sample(_FEW, seed), clusters_of(part.pairs)
    middle = part.natural_means().expand(1, len(part.labels), -1)
    rows = np.random.default_rng(seed).choice(int(few.tree.edited.sum()), _RESAMPLED)
    drawn = middle.repeat(_RESAMPLED, 1, 1)
    places = [place for unit in intervention.units for place in part.space.places(unit)]
    drawn[:, :, places] = torch.cat(few.untouched_states(intervention.units), 1)[rows][:, None]
    others = matched_sets(intervention, part, _HELD_SETS, seed)

    def right(problem: Problem, mask: Tensor, values: Tensor = middle) -> np.ndarray:
        return right_of(problem, mask, values.expand(len(mask), -1, -1))

    one, brief = right(few, mask).mean(), right(few, others).mean(1)
    untouched, (held,) = (1 - part.direction) == expected_of(part), right(part, mask)
    close = int((brief <= one + _CLOSE).sum()) if held.mean() < untouched.mean() - MOST_MOVED else 0
    worst = brief.argsort(kind="stable")[: max(_WORST, close)]
    rivals = right(part, others[worst])
    least = min(untouched, *rivals, key=np.mean)
    return Necessity(
        untouched=share_of(untouched, clusters),
        held=share_of(held, clusters),
        lost=change_of(least - held.astype(int), clusters),
        resampled=float(right(few, mask.expand(_RESAMPLED, -1, -1), drawn).mean()),
        random=tuple(rivals.mean(1).tolist()),
    )


class DirectEdit:
    """An edit that adds to the last layer what units write there when they are set, and changes nothing else.

    A model calls it for the same rows site by site, the last layer at the end.
    """

    def __init__(
        self,
        model: LanguageModel,
        units: Sequence[Unit],
        writes: Float[Tensor, "units width"],
        values: Float[Tensor, "runs directions units"],
        active: Bool[Tensor, "runs directions units"],
        sources: Sources | None = None,
    ) -> None:
        """`active` are the units that are set in each run and direction. `sources` take the place of `values`."""
        self._last, self._units, self._writes, self._sources = model.layers[-1].name, units, writes, sources
        self._values, self._active = values.to(writes.device).float(), active.to(writes.device)
        self.sites = frozenset(unit.site for unit in units) | {self._last}
        self.runs = len(values)
        self._added: dict[str, Tensor] = {}
        """By site. A model that repeats a pass for lack of memory writes them again."""

    def __call__(
        self, site: str, spans: Sequence[Span], h: Float[Tensor, "rows _ width"]
    ) -> Float[Tensor, "rows _ width"]:
        if not spans:
            return h
        units = [i for i, unit in enumerate(self._units) if unit.site == site]
        if units:
            at = torch.tensor([self._units[i].index for i in units], device=h.device)
            added = torch.zeros(len(h), self.runs, self._writes.shape[1], device=h.device)
            for span in spans:
                rows = slice(span.start, span.stop)
                given = self._values[:, span.direction, units]
                if self._sources is not None:
                    given = self._sources.at(site, span)[..., at]
                moved = (given - h[rows, :1][..., at].float()) * self._active[:, span.direction, units]
                added[rows] = moved @ self._writes[units]
            self._added[site] = added
        if site != self._last:
            return h
        return h + sum(self._added.values(), h.new_zeros(())).to(h.dtype)
