"""What must stay, with the intervention applied: sentences that the search did not read."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from pivotal.errors import PivotalError
from pivotal.evidence.checks.effects import effect_on
from pivotal.evidence.checks.text import text_cost
from pivotal.problem.kept import Stay
from pivotal.problem.objective import TOLERANCE, Terms
from pivotal.problem.problem import Problem
from pivotal.records.evidence import Effect, TextCost
from pivotal.records.intervention import Intervention
from pivotal.records.summary import Kept

_PREFIXES = 512
"""The training prefixes whose sample of kept sentences is measured."""


@torch.no_grad()
def kept_of(intervention: Intervention, train: Problem, stays: Sequence[Stay], terms: Terms) -> Kept | None:
    """What the search bounded, on the sentences that it read, and the effect on the others. None if nothing had to
    stay."""
    if train.kept is None:
        return None
    part = train.sample(_PREFIXES)
    costs = terms.costs(part, part.run_intervention(intervention))
    kl, largest = float(costs[0, 0]), part.preferences.by_direction(costs[:, 1:]).abs().amax(2)[0].tolist()
    changes = dict(zip(part.preferences.names, largest, strict=True))
    most = terms.max_change or torch.inf
    effects: list[Effect] = []
    texts: list[TextCost] = []
    for stay in stays:
        if stay.held_out is not None:
            try:
                effects.append(effect_on(intervention, train.model, stay.held_out))
            except PivotalError:  # the model knows none of the held-out pairs
                continue
        elif (cost := text_cost(intervention, train.model, stay.held_out_lines, name=stay.name)) is not None:
            texts.append(cost)
    text = any(stay.pairs is None for stay in stays)
    return Kept(
        max_change=terms.max_change,
        changes=changes,
        broken=tuple(name for name, change in changes.items() if change > TOLERANCE * most),
        max_kl=terms.max_kl if text else None,
        kl=kl if text else None,
        effects=tuple(effects),
        texts=tuple(texts),
    )
