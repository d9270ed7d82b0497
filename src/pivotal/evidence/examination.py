"""The examination of an intervention on held-out pairs: what is computed once and read by scores, checks and traces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.evidence.intervals import shares_of
from pivotal.evidence.knowledge import knowledge_of
from pivotal.models.edits import dense
from pivotal.problem.batch import Outcome
from pivotal.problem.objective import Terms
from pivotal.problem.problem import Problem
from pivotal.problem.text import OrdinaryText
from pivotal.records.evidence import Knowledge, Share
from pivotal.records.intervention import Intervention
from pivotal.records.traces import PairOutcome

_POSITIONS = 128
"""The positions at which the KL of many interventions is measured."""


class Examination:
    """An intervention applied to the pairs of a problem. Each part is computed when it is first read."""

    def __init__(
        self,
        intervention: Intervention,
        problem: Problem,
        *,
        knowledge: Knowledge | None = None,
        outcome: Outcome | None = None,
    ) -> None:
        """`knowledge` and `outcome` are given if they are known already."""
        self.intervention, self.problem = intervention, problem
        self._knowledge, self._outcome = knowledge, outcome
        self._samples: dict[tuple[int, int], Examination] = {}

    @cached_property
    def knowledge(self) -> Knowledge:
        """What the untouched model knows."""
        return self._knowledge or knowledge_of(self.problem)

    @cached_property
    def text(self) -> OrdinaryText:
        """Ordinary text."""
        return OrdinaryText(self.problem.model)

    @cached_property
    def edit(self) -> tuple[Float[Tensor, "1 directions units"], Float[Tensor, "1 directions coordinates"]]:
        """The mask and the values of the intervention."""
        return dense(self.intervention, self.problem.space, self.problem.model.device)

    @cached_property
    def outcome(self) -> Outcome:
        """The masked run."""
        return self._outcome or self.problem.run_intervention(self.intervention)

    @cached_property
    def flipped(self) -> np.ndarray:
        """Whether the preference of each pair is flipped."""
        return self.outcome.flipped()[0].cpu().numpy()

    @cached_property
    def target(self) -> np.ndarray:
        """The probability of the target word among the two words of each pair, untouched and edited."""
        log_ratio = torch.stack([self.problem.clean_log_ratio, self.outcome.log_ratio[0]], dim=1)
        return torch.sigmoid(-log_ratio).cpu().numpy()

    @cached_property
    def typical(self) -> int:
        """The flipped pair of median strength; of two, the weaker. If no pair is flipped, the median pair."""
        pairs = np.flatnonzero(self.flipped) if self.flipped.any() else np.arange(len(self.flipped))
        after = self.outcome.log_ratio[0].cpu().numpy()[pairs]
        return int(pairs[np.argsort(-after, kind="stable")[(len(pairs) - 1) // 2]])

    @cached_property
    def share(self) -> Callable[..., Share]:
        """`share_of` for these pairs."""
        return shares_of(self.problem.pairs)

    def by_direction(self, flipped: np.ndarray) -> dict[str, Share]:
        """The share of flipped preferences for each label to flip to."""
        of = {label: self.problem.direction == d for d, label in enumerate(self.problem.labels)}
        return {label: self.share(flipped, some) for label, some in of.items() if some.any()}

    @cached_property
    def kl_at_nodes(self) -> Float[Tensor, "live 1"]:
        """KL(untouched || edited) at each live node."""
        with torch.no_grad():
            return self.problem.untouched.once(self.outcome.states)

    @cached_property
    def kl(self) -> float:
        """KL averaged over all positions of a sentence, then over the sentences, as in the paper."""
        return float((self.problem.positions.weight @ self.kl_at_nodes)[0])

    @cached_property
    def kl_after_edit(self) -> float:
        """KL averaged over the positions from the first edited step."""
        return float((self.problem.positions.after_edit @ self.kl_at_nodes)[0])

    @cached_property
    def outcomes(self) -> tuple[PairOutcome, ...]:
        """The outcome of each pair, in the order of the problem's pairs."""
        problem, tree = self.problem, self.problem.tree
        before, after = -problem.clean_log_ratio.cpu(), -self.outcome.log_ratio[0].cpu()
        at_nodes = np.zeros(len(tree.token))
        at_nodes[tree.live] = self.kl_at_nodes[:, 0].cpu().numpy()
        kl = tree.gathered(at_nodes)[tree.leaf] / (tree.lengths + 1)
        return tuple(
            PairOutcome(
                pair=i,
                prefix=pair.prefix,
                cue=pair.cue,
                words=pair.words,
                label=pair.label if pair.asks_words else "",
                group=pair.group,
                direction=problem.labels[problem.direction[i]],
                log_odds=(float(before[i]), float(after[i])),
                kl=float(kl[i]),
            )
            for i, pair in enumerate(problem.pairs)
        )

    def sample(self, prefixes: int, seed: int = 0) -> Examination:
        """The examination of a sample of the prefixes. Its outcome is a part of this one; nothing is run again."""
        if (prefixes, seed) not in self._samples:
            chosen = self.problem.examples.sampled(prefixes, seed)
            if chosen is None:
                return self
            self._samples[prefixes, seed] = self._part(self.problem.sample(prefixes, seed), chosen)
        return self._samples[prefixes, seed]

    @cached_property
    def matched(self) -> Examination | None:
        """The examination of the pairs that have a counterfactual prefix, matched with it; None if there are none.
        Nothing is run again."""
        found = self.problem.matched
        return None if found is None else self._part(*found)

    @cached_property
    @torch.no_grad()
    def exchanged(self) -> tuple[Problem, Outcome]:
        """The matched pairs, and their run with the units set to their counterfactual states, and with all units of
        their sites."""
        asked = self.problem.exchanging(self.intervention.sites)
        mask, values = dense(self.intervention, asked.space, asked.model.device)
        return asked, asked.run(torch.cat([mask, torch.ones_like(mask)]), values.expand(2, -1, -1))

    def _part(self, problem: Problem, chosen: np.ndarray) -> Examination:
        """The examination of a problem whose pairs are some of these."""
        rows = torch.as_tensor(problem.tree.rows_in(self.problem.tree, chosen))
        with torch.no_grad():
            outcome = problem.outcome_of(self.outcome.states[rows])
        part = Examination(self.intervention, problem, outcome=outcome)
        if "kl_at_nodes" in vars(self):
            part.kl_at_nodes = self.kl_at_nodes[rows]
        return part


def expected_of(problem: Problem) -> np.ndarray:
    """The label of the expected word of each pair; of the preferred word, if the pair states none."""
    return np.where(problem.expected < 0, 1 - problem.direction, problem.expected)


@torch.no_grad()
def right_of(problem: Problem, mask: Tensor, values: Tensor) -> np.ndarray:
    """Whether each run prefers the expected word of each pair."""
    return right_in(problem, problem.run(mask, values))


def right_in(problem: Problem, outcome: Outcome) -> np.ndarray:
    """Whether each run of an outcome prefers the expected word of each pair."""
    stays = outcome.log_ratio.cpu().numpy() > 0
    return np.where(stays, 1 - problem.direction, problem.direction) == expected_of(problem)


def each_way(edit: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """A mask and values with a run for each direction, in which all pairs are edited in this direction."""
    mask, values = (
        part.transpose(0, 1).flatten(0, 1)[:, None].expand(-1, part.shape[1], -1) for part in edit
    )
    return mask, values


def towards(edit: tuple[Tensor, Tensor], directions: Sequence[int]) -> tuple[Tensor, Tensor]:
    """A mask and values that edit in the direction given for the label that a pair is to flip to. They apply an
    intervention whose labels are others, or against its direction."""
    mask, values = edit
    return mask[:, list(directions)], values[:, list(directions)]


@torch.no_grad()
def score_many(interventions: Sequence[Intervention], problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Flips (interventions x examples), and KL over all positions, from a sample of them if there are many."""
    few = problem.tree.n_live <= _POSITIONS
    drawn = None if few else problem.positions.draw(_POSITIONS, torch.Generator().manual_seed(0))
    pairs = [dense(i, problem.space, problem.model.device) for i in interventions]
    mask, values = (torch.cat(tensors) for tensors in zip(*pairs, strict=True))
    flips, kl = [], []
    for outcome in _in_chunks(mask, values, problem):
        flips.append(outcome.flipped().cpu().numpy())
        kl.append(Terms(kl_weight=1.0).costs(problem, outcome, drawn)[:, 0].cpu().numpy())
    return np.concatenate(flips), np.concatenate(kl)


@torch.no_grad()
def flips_of(
    mask: Float[Tensor, "runs directions units"],
    values: Float[Tensor, "runs directions coordinates"],
    problem: Problem,
) -> np.ndarray:
    """Whether each run flips each example."""
    return np.concatenate([each.flipped().cpu().numpy() for each in _in_chunks(mask, values, problem)])


@torch.no_grad()
def costs_of(
    mask: Float[Tensor, "runs directions units"],
    values: Float[Tensor, "runs directions coordinates"],
    problem: Problem,
    terms: Terms,
) -> Float[Tensor, "runs bounds"]:
    """What `terms` bounds: KL and the changes of kept questions."""
    return torch.cat([terms.costs(problem, each) for each in _in_chunks(mask, values, problem)])


def _in_chunks(mask: Tensor, values: Tensor, problem: Problem) -> Iterator[Outcome]:
    at_once = problem.runs_at_once()
    return map(problem.run, mask.split(at_once), values.split(at_once))
