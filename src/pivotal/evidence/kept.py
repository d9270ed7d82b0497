"""What must stay, with the intervention applied: sentences that the search did not read."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from pivotal.errors import PivotalError
from pivotal.evidence.checks.effects import effect_on
from pivotal.evidence.checks.text import text_cost
from pivotal.problem.kept import Stay
from pivotal.problem.problem import Problem
from pivotal.records.evidence import Effect, TextCost
from pivotal.records.intervention import Intervention
from pivotal.records.summary import Kept

_PREFIXES = 512
"""The training prefixes whose sample of kept sentences is measured."""


@torch.no_grad()
def kept_of(intervention: Intervention, train: Problem, stays: Sequence[Stay], max_kl: float) -> Kept | None:
    """The KL of the sentences that the search kept, and the effect on the others. None if nothing had to stay."""
    if train.kept is None:
        return None
    part = train.sample(_PREFIXES)
    kl = float(part.mean_kl(part.run_intervention(intervention).states)[0])
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
    return Kept(max_kl=max_kl, kl=kl, effects=tuple(effects), texts=tuple(texts))
