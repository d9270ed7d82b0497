"""What an intervention is worth on held-out pairs: flips, units, KL, controls, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.models.edits import by_first_site, dense
from pivotal.problem.objective import KL_TOLERANCE, Terms
from pivotal.problem.problem import Problem
from pivotal.records import serial
from pivotal.records.intervention import Intervention
from pivotal.records.summary import Control, DropOne, Share
from pivotal.records.traces import PairOutcome
from pivotal.searches.tools.refit import Refit

_RESAMPLES = 2000
_DRAWN = 50_000_000
"""Numbers that a bootstrap may draw: sets of more than 25,000 prefixes are resampled less often, to bound memory."""
_TOGETHER = 4
"""Random sets whose values are learned together on a CPU: enough to keep it busy, and few enough that those which begin
late in a deep model need not wait for those which begin early."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Scores on the problem's pairs."""

    flip_accuracy: Share
    by_direction: dict[str, Share]
    by_group: dict[str, Share]
    units: int
    kl: float
    """Mean over the sentences of the mean over all positions of each, as in the paper."""
    kl_after_edit: float
    """Mean over the positions from the first edited step on."""
    clean_accuracy: float | None
    drop_one: tuple[DropOne, ...] = ()
    control: Control | None = None
    outcomes: tuple[PairOutcome, ...] = ()
    """What became of each pair, in the order of the problem's."""

    def as_dict(self) -> dict[str, Any]:
        """The scores as plain data, as summary.json has them."""
        return serial.plain(self)

    def __repr__(self) -> str:
        units = "1 unit" if self.units == 1 else f"{self.units:,} units"
        return (
            f"Evaluation({self.flip_accuracy} of {self.flip_accuracy.n:,} preferences flipped, {units}, "
            f"KL {self.kl:.3f})"
        )

    def _repr_html_(self) -> str:
        from pivotal.report.notebook import evaluation_html

        return evaluation_html(self)

    def plot(self) -> Any:
        """Flipped preferences by construction and direction, as an altair chart."""
        from pivotal.report.notebook import plot_evaluation

        return plot_evaluation(self)


def evaluate(
    intervention: Intervention,
    problem: Problem,
    *,
    train: Problem | None = None,
    controls: int = 0,
    terms: Terms | None = None,
    seed: int = 0,
    any_model: bool = False,
) -> Evaluation:
    """Score an intervention on a problem's pairs.

    `controls` random sets of as many units are compared with it; their values are learned on `train`, with the loss
    that `terms` describe (a search's own are its `terms`), or for flips alone where there is no bound on KL to keep.
    """
    intervention.check_model(problem.model.name, problem.model.fingerprint(), any_model=any_model)
    check_question(intervention, problem)
    outcomes, kl, kl_after = _outcomes(intervention, problem)
    flipped = np.array([outcome.flipped for outcome in outcomes])
    share = Bootstrap(problem, seed)
    control = None
    if controls:
        if train is None:
            raise PivotalError("Random controls learn their values on training pairs: give those as train=.")
        accuracy = float(flipped.mean())
        terms = terms or Terms()
        control = random_control(intervention, accuracy, problem, train, controls, terms, seed, kl=kl)
    return Evaluation(
        flip_accuracy=share(flipped),
        by_direction={
            label: share(flipped, problem.direction == i)
            for i, label in enumerate(problem.labels)
            if (problem.direction == i).any()
        },
        by_group={
            g: share(flipped, np.array([p.group == g for p in problem.pairs])) for g in problem.pairs.groups
        },
        units=len(intervention),
        kl=kl,
        kl_after_edit=kl_after,
        clean_accuracy=problem.clean_accuracy,
        drop_one=_drop_one(intervention, problem),
        control=control,
        outcomes=outcomes,
    )


def check_question(intervention: Intervention, problem: Problem) -> None:
    """Directions are told apart by their order: with the labels exchanged every value would be the wrong one."""
    if intervention.directions != problem.labels:
        raise PivotalError(
            f"This intervention flips to {' or '.join(intervention.directions)}, but the pairs are labelled "
            f"{' and '.join(problem.labels)}. Use pairs with the same two labels in the same order."
        )
    if intervention.steps != problem.steps:
        raise PivotalError(
            f"This intervention acts at steps={intervention.steps!r}, but the problem is about "
            f"steps={problem.steps!r}. Make the problem with the steps of the intervention."
        )


@torch.no_grad()
def _outcomes(intervention: Intervention, problem: Problem) -> tuple[tuple[PairOutcome, ...], float, float]:
    """Pair by pair, and the KL over all positions and after the edit."""
    outcome = problem.run_intervention(intervention)
    each = problem.kl(outcome.states)
    before, after = -problem.clean_log_ratio.cpu(), -outcome.log_ratio[0].cpu()
    at_nodes = np.zeros(len(problem.tree.token))
    at_nodes[problem.tree.live] = each[:, 0].cpu().numpy()
    kl = problem.tree.gathered(at_nodes)[problem.tree.leaf] / (problem.tree.lengths + 1)
    outcomes = tuple(
        PairOutcome(
            pair=i,
            prefix=pair.prefix,
            cue=pair.cue,
            words=pair.words,
            label=pair.label,
            group=pair.group,
            direction=problem.labels[problem.direction[i]],
            log_odds=(float(before[i]), float(after[i])),
            kl=float(kl[i]),
        )
        for i, pair in enumerate(problem.pairs)
    )
    return (
        outcomes,
        float((problem.position_weight @ each)[0]),
        float((problem.after_edit_weight @ each)[0]),
    )


@torch.no_grad()
def score_many(
    interventions: Sequence[Intervention], problem: Problem
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Flips (interventions x examples), KL over all positions and KL after the edit, as many interventions at a time
    as memory is allowed: the masks alone of a thousand of them may be gigabytes."""
    at_once, parts = problem.runs_at_once(), []
    for start in range(0, len(interventions), at_once):
        some = interventions[start : start + at_once]
        pairs = [dense(i, problem.space, problem.model.device) for i in some]
        mask, values = (torch.cat(tensors) for tensors in zip(*pairs, strict=True))
        parts.append(score_masks(mask, values, problem))
    flips, kl, after = (np.concatenate(part) for part in zip(*parts, strict=True))
    return flips, kl, after


@torch.no_grad()
def score_masks(
    mask: Float[Tensor, "runs directions units"],
    values: Float[Tensor, "runs directions coordinates"],
    problem: Problem,
    *,
    kl: bool = True,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same for masks as tensors, as many at a time as memory is allowed. Without `kl` the KLs are NaN."""
    at_once = problem.runs_at_once()
    flips, kls, afters = [], [], []
    for m, v in zip(mask.split(at_once), values.split(at_once), strict=True):
        outcome = problem.run(m, v)
        flips.append(outcome.flipped().cpu().numpy())
        if kl:
            each = problem.kl(outcome.states)
            kls.append((problem.position_weight @ each).cpu().numpy())
            afters.append((problem.after_edit_weight @ each).cpu().numpy())
    empty = np.full(len(mask), np.nan)
    return (
        np.concatenate(flips),
        np.concatenate(kls) if kl else empty,
        np.concatenate(afters) if kl else empty,
    )


class Bootstrap:
    """Percentile bootstrap that resamples prefixes and not pairs: pairs with one prefix are flipped or not by the same
    state, so to draw them one by one would make the interval too narrow."""

    def __init__(self, problem: Problem, seed: int = 0) -> None:
        prefixes, self._cluster = np.unique(problem.tree.leaf, return_inverse=True)
        rng = np.random.default_rng(seed)
        n = len(prefixes)
        resamples = min(_RESAMPLES, max(200, _DRAWN // n))
        self._draws = rng.multinomial(n, np.full(n, 1 / n), size=resamples).astype(np.float32)

    def __call__(self, flipped: np.ndarray, of: np.ndarray | None = None) -> Share:
        of = np.ones(len(flipped), dtype=bool) if of is None else of
        clusters = self._draws.shape[1]
        hits = np.bincount(self._cluster, flipped & of, minlength=clusters)
        sizes = np.bincount(self._cluster, of, minlength=clusters)
        drawn = self._draws @ sizes
        shares = (self._draws @ hits)[drawn > 0] / drawn[drawn > 0]
        low, high = np.percentile(shares, [2.5, 97.5])
        return Share(float(flipped[of].mean()), float(low), float(high), int(of.sum()))


def _drop_one(intervention: Intervention, problem: Problem) -> tuple[DropOne, ...]:
    if len(intervention) == 1:
        return ()
    flipped, kl, _ = score_many([intervention.without(i) for i in range(len(intervention))], problem)
    return tuple(
        DropOne(str(unit), unit.number, float(f.mean()), float(k))
        for unit, f, k in zip(intervention.units, flipped, kl, strict=True)
    )


def random_control(
    intervention: Intervention,
    accuracy: float,
    problem: Problem,
    train: Problem,
    sets: int,
    terms: Terms,
    seed: int,
    *,
    kl: float = 0.0,
) -> Control:
    """p is the share of random sets that do at least as well, the found set, of that accuracy and KL, counted among
    them. Where it keeps a bound on KL, a set that breaks the bound does not do as well, however much it flips.

    Where there is no bound to keep, the values of the random sets are learned for flips alone, whatever weight KL had
    in the search: that makes them the harder to beat."""
    rng = np.random.default_rng(seed)
    units = len(problem.space)
    mask = torch.zeros(sets, len(problem.labels), units)
    for row in mask:
        row[:, rng.choice(units, len(intervention), replace=False)] = torch.tensor(
            intervention.active
        ).float()
    mask = mask.to(problem.model.device)
    if terms.max_kl is not None and kl <= KL_TOLERANCE * terms.max_kl:
        most, refit = KL_TOLERANCE * terms.max_kl, Refit(terms=terms, updates=40, batch=32)
    else:
        # No bound to be settled on: large steps on few prefixes flip as much at a third of the price.
        flips = replace(terms, kl_weight=0.0, max_kl=None)
        most, refit = np.inf, Refit(terms=flips, updates=32, rate=0.1, batch=12, looks=2)
    shares, kls = np.zeros(sets), np.zeros(sets)
    at_once = _TOGETHER if mask.device.type == "cpu" else sets
    for some in by_first_site(problem.space, mask, at_once):
        values = refit.fit(train, mask[some], seed=seed).values
        flipped, kls[some.cpu()], _ = score_masks(mask[some], values, problem, kl=most < np.inf)
        shares[some.cpu()] = flipped.mean(1)
    broken = kls > most
    return Control(
        sets=sets,
        flip_accuracy=[float(s) for s in shares],
        mean=float(shares.mean()),
        best=float(shares.max()),
        p_value=float((1 + ((shares >= accuracy) & ~broken).sum()) / (1 + sets)),
        broken=int(broken.sum()),
    )
