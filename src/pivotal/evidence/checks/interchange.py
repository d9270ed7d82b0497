"""Interchange: units set, pair by pair, to what they are in the counterfactual prefix. It needs no learning."""

from __future__ import annotations

import torch

from pivotal.errors import PivotalError
from pivotal.evidence.intervals import shares_of
from pivotal.models.edits import dense
from pivotal.problem.problem import Problem
from pivotal.records.evidence import Interchange
from pivotal.records.intervention import Intervention

_PREFIXES = 128


@torch.no_grad()
def interchange(intervention: Intervention, problem: Problem) -> Interchange | None:
    """Set the units of an intervention to their counterfactual states. None if no pair has a counterfactual prefix of
    the label to flip to that differs from its own prefix and that the model can read."""
    part = problem.sample(_PREFIXES)
    sites = ",".join(dict.fromkeys(unit.site for unit in intervention.units))
    try:
        asked = Problem(part.model, part.pairs, sites=sites, steps=part.steps, values="interchange")
    except PivotalError:  # none of them can be asked
        return None
    mask, values = dense(intervention, asked.space, asked.model.device)
    outcome = asked.run(torch.cat([mask, torch.ones_like(mask)]), values.expand(2, -1, -1))
    few, whole = outcome.flipped().cpu().numpy()
    kl, whole_kl = asked.mean_kl(outcome.states).tolist()
    fixed = asked.with_values("unbounded").run(mask, values).flipped()[0].cpu().numpy()
    share = shares_of(asked.prefix_ids)
    return Interchange(
        flipped=share(few),
        by_direction={
            label: share(few, asked.direction == d)
            for d, label in enumerate(asked.labels)
            if (asked.direction == d).any()
        },
        whole_site=share(whole),
        fixed=share(fixed),
        kl=kl,
        whole_site_kl=whole_kl,
    )
