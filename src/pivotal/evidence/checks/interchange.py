"""Interchange: units set, pair by pair, to what they are in the counterfactual prefix. It needs no learning.

Every node of the trees is told apart by a direction of its own, so that the edit knows the node of each row, whatever
the order of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.evidence.intervals import shares_of
from pivotal.models.tree import PrefixTree, Span
from pivotal.problem.problem import Problem
from pivotal.questions.pairs import PairSet
from pivotal.records.evidence import Interchange
from pivotal.records.intervention import Intervention

_PREFIXES = 96


@torch.no_grad()
def interchange(intervention: Intervention, problem: Problem) -> Interchange | None:
    """Set the units of an intervention to their counterfactual states. None if no pair has a counterfactual prefix that
    the model can read, or if its steps cannot be matched with those of the prefix."""
    found = _matched(problem.sample(_PREFIXES))
    if found is None:
        return None
    part, other = found
    share = shares_of(part.prefix_ids)
    sites = tuple(dict.fromkeys(unit.site for unit in intervention.units))
    few = _flipped(part, other, {site: _coordinates(intervention, site) for site in sites})
    whole = _flipped(part, other, dict.fromkeys(sites))
    return Interchange(
        flipped=share(few),
        by_direction={
            label: share(few, part.direction == d)
            for d, label in enumerate(part.labels)
            if (part.direction == d).any()
        },
        whole_site=share(whole),
    )


def _matched(problem: Problem) -> tuple[Problem, list[list[int]]] | None:
    """The examples with a counterfactual prefix of as many tokens, and the tokens of those prefixes."""
    texts = [pair.counterfactuals[int(d)] for pair, d in zip(problem.pairs, problem.direction, strict=True)]
    asked = [(i, replace(problem.pairs[i], prefix=text)) for i, text in enumerate(texts) if text]
    if not asked:
        return None
    pairs = PairSet(problem.pairs.name, problem.labels, tuple(pair for _, pair in asked))
    try:
        forms = Problem(problem.model, pairs, sites=problem.sites, steps=problem.steps)
    except PivotalError:  # none of them can be asked
        return None
    places = {id(pair): i for i, pair in asked}
    own = problem.tree.sequences()
    matched = [
        (places[id(pair)], tokens)
        for pair, tokens in zip(forms.pairs, forms.tree.sequences(), strict=True)
        if len(tokens) == len(own[places[id(pair)]]) and tokens != own[places[id(pair)]]
    ]
    if not matched:
        return None
    return problem.restrict([i for i, _ in matched]), [tokens for _, tokens in matched]


def _coordinates(intervention: Intervention, site: str) -> list[int]:
    """The coordinates of the units of a site, within the site."""
    units = [unit for unit in intervention.units if unit.site == site]
    return [unit.index * unit.size + k for unit in units for k in range(unit.size)]


def _flipped(problem: Problem, other: list[list[int]], where: dict[str, list[int] | None]) -> np.ndarray:
    """Which examples flip if these coordinates (None: all) of these sites take their counterfactual states."""
    model, own = problem.model, problem.tree.sequences()
    source = PrefixTree.build(other)
    seen = _Recorder(where)
    model.states(model.prepare(source.told_apart()), seen)
    # Each example has nodes of its own: two examples may share a prefix but not its counterfactual.
    tree = PrefixTree.build(own, problem.tree.cues(), range(len(own)), problem.steps)
    taken: dict[int, int] = {}
    for i in range(len(own)):
        here, there = tree.path(int(tree.leaf[i])), source.path(int(source.leaf[i]))
        taken |= {node: match for node, match in zip(here, there, strict=True) if tree.edited[node]}
    told = tree.told_apart()
    states = model.states(model.prepare(told), _Interchange(where, seen.states, taken))
    ratio = problem.with_tree(told, problem.steps).log_ratio_of(states)
    return (ratio[0] < 0).cpu().numpy()


class _Recorder:
    """An edit that changes nothing and records the states of some sites, by node."""

    runs = 1

    def __init__(self, where: dict[str, list[int] | None]) -> None:
        self.sites = frozenset(where)
        self._where = where
        self.states: dict[str, dict[int, Tensor]] = {site: {} for site in where}

    def __call__(
        self, site: str, spans: Sequence[Span], h: Float[Tensor, "rows _ width"]
    ) -> Float[Tensor, "rows _ width"]:
        if site in self.states:
            chosen = self._where[site]
            kept = (h if chosen is None else h[..., chosen])[:, 0].clone()
            self.states[site] |= {span.direction: kept[span.start] for span in spans}
        return h


class _Interchange:
    """An edit that gives nodes the recorded states of others."""

    runs = 1

    def __init__(
        self,
        where: dict[str, list[int] | None],
        states: dict[str, dict[int, Tensor]],
        taken: dict[int, int],
    ) -> None:
        self.sites = frozenset(where)
        self._where, self._states, self._taken = where, states, taken

    def __call__(
        self, site: str, spans: Sequence[Span], h: Float[Tensor, "rows _ width"]
    ) -> Float[Tensor, "rows _ width"]:
        edited = [span for span in spans if span.direction in self._taken] if site in self._where else []
        if not edited:
            return h
        rows = torch.tensor([row for span in edited for row in range(span.start, span.stop)], device=h.device)
        new = torch.stack(
            [
                self._states[site][self._taken[span.direction]]
                for span in edited
                for _ in range(span.start, span.stop)
            ]
        )
        chosen = self._where[site]
        changed = h.clone()
        if chosen is None:
            changed[rows, 0] = new
        else:
            changed[rows[:, None], 0, torch.tensor(chosen, device=h.device)] = new
        return changed
