"""The loss: an intervention should flip the preference, or make the model say what it says after the counterfactual
prefix, and change nothing else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pivotal.problem.batch import Batch, Outcome

FlipLoss = Literal["soft-margin", "ratio"]

_LARGEST = 60.0
"""The largest log ratio that is exponentiated, to stay well within the range of float32."""


def loss_of(
    kind: FlipLoss, log_ratio: Float[Tensor, "runs examples"], margin: float
) -> Float[Tensor, "runs examples"]:
    """The loss of each example. `ratio` is the paper's p(d) / p(t). It grows exponentially with the log ratio, so the
    few worst sentences dominate its gradient. `soft-margin`, log(1 + exp(margin + log ratio)), grows linearly."""
    if kind == "ratio":
        return log_ratio.clamp(max=_LARGEST).exp()
    return torch.nn.functional.softplus(log_ratio + margin)


_LARGE = 128
"""The prefixes of a batch from which on an update measures KL at all `kl_nodes` positions."""

_OFTEN = 2
"""The positions at which KL is the loss itself, as a multiple of those at which it is only a cost."""

AT_BOUND = 0.5
"""What a cost at its bound is worth, in nats of the loss, before a fit has measured it."""

TOLERANCE = 1.1
"""A bound counts as kept up to this multiple of it, because it was enforced on other pairs."""


@dataclass(frozen=True)
class Terms:
    """The loss of a masked run, with an optional weight of KL to the untouched model, and bounds: on KL, and on the
    change of each kept question in each direction."""

    flip_loss: FlipLoss = "soft-margin"
    margin: float = 1.0
    kl_weight: float = 0.0
    max_kl: float | None = None
    max_change: float | None = None
    kl_nodes: int = 48
    """Number of positions at which each update measures KL."""

    def for_batches(self, prefixes: int) -> Terms:
        """The same loss for batches of so many prefixes; 0 is all. Without a bound on KL, a small batch measures KL at
        proportionally fewer positions."""
        if self.max_kl is not None or not prefixes:
            return self
        return replace(self, kl_nodes=min(self.kl_nodes, max(1, self.kl_nodes * prefixes // _LARGE)))

    def priced(self) -> Terms:
        """The same loss with KL at its first price instead of its bound, unless changes are bounded too."""
        if self.max_kl is None or self.max_change is not None:
            return self
        return replace(self, kl_weight=self.kl_weight + AT_BOUND / self.max_kl, max_kl=None)

    @property
    def wants_kl(self) -> bool:
        return self.kl_weight > 0 or self.max_kl is not None

    @property
    def bounded(self) -> bool:
        """Whether there is a bound."""
        return self.max_kl is not None or self.max_change is not None

    def bounds(self, batch: Batch) -> Float[Tensor, " bounds"]:
        """The bound on KL, then those on the changes of kept questions; infinite where there is none."""
        change = [self.max_change or torch.inf] * batch.preferences.changes
        return torch.tensor([self.max_kl or torch.inf, *change], device=batch.model.device)

    def weights(self, batch: Batch) -> Float[Tensor, " bounds"]:
        """The weights in the loss of what `costs` gives, without the bounds."""
        weights = torch.zeros(1 + batch.preferences.changes, device=batch.model.device)
        weights[:1].fill_(self.kl_weight)  # no copy from the CPU, which a recording could not repeat
        return weights

    def first_price(self, batch: Batch) -> Float[Tensor, " bounds"]:
        """The prices of what `costs` gives in units of the loss, before a fit has measured them."""
        return self.weights(batch) + AT_BOUND / self.bounds(batch)

    def loss(self, outcome: Outcome, drawn: Int[Tensor, " nodes"] | None = None) -> Float[Tensor, " runs"]:
        """The loss of each run. That of a counterfactual objective, KL(counterfactual || edited), is estimated at the
        drawn positions if there are some. Before the first word that differs, the counterfactual is the untouched
        model, so this loss counts side effects there."""
        if outcome.target is not None:
            return outcome.target.mean(outcome.states, drawn)
        return outcome.mean(loss_of(self.flip_loss, outcome.log_ratio, self.margin))

    def by_direction(
        self,
        outcome: Outcome,
        share: Float[Tensor, "examples directions"],
        drawn: Int[Tensor, " nodes"] | None,
    ) -> Float[Tensor, "runs directions"]:
        """The parts of the loss that belong to each direction. `share` is the weight of each example in its own."""
        if outcome.target is not None and drawn is not None:
            return outcome.target.by_direction(outcome.states, drawn, share.shape[1])
        return loss_of(self.flip_loss, outcome.log_ratio, self.margin) @ share

    def reached(
        self, batch: Batch, outcome: Outcome, drawn: Int[Tensor, " nodes"] | None = None
    ) -> Float[Tensor, " runs"]:
        """How much of the aim each run reaches: the share of flips, or the share of the KL to the counterfactual that
        is gone."""
        if outcome.target is None:
            return outcome.flips()
        return 1 - self.loss(outcome, drawn) / outcome.target.mean(batch.tensors.clean[:, None], drawn)

    def score(
        self,
        batch: Batch,
        loss: Float[Tensor, " runs"],
        costs: Float[Tensor, "runs bounds"],
        *,
        few: bool = False,
    ) -> Float[Tensor, " runs"]:
        """The score of each run; lower is better. Runs that exceed a bound rank after all runs that keep all bounds.

        With `few`, the changes were measured on few sentences, where some of many questions seem to change more than
        they do. What a change has beyond its bound is then added to the loss, at its first price.
        """
        loss = loss + self.kl_weight * costs[:, 0]
        excess = costs.abs() / self.bounds(batch)
        if few:
            loss = loss + 0.5 * (excess[:, 1:] - 1).clamp(min=0).sum(1)
            excess = excess[:, :1]
        worst = excess.amax(1)
        return torch.where(worst <= 1, loss, 1e6 * worst)

    def excess(self, batch: Batch, costs: Float[Tensor, "runs bounds"]) -> Float[Tensor, " runs"]:
        """The largest cost of each run as a multiple of its bound."""
        return (costs.abs() / self.bounds(batch)).amax(1)

    def draw(
        self, batch: Batch, noise: torch.Generator, nodes: int | None = None
    ) -> Int[Tensor, " nodes"] | None:
        """Random positions at which to measure KL, or None if KL is not used. They are drawn before a pass, so that a
        repeated pass can use the same positions."""
        if batch.objective == "counterfactual":
            return batch.positions.draw(_OFTEN * (nodes or self.kl_nodes), noise)
        return batch.positions.draw(nodes or self.kl_nodes, noise) if self.wants_kl else None

    def costs(
        self, batch: Batch, outcome: Outcome, drawn: Int[Tensor, " nodes"] | None = None
    ) -> Float[Tensor, "runs bounds"]:
        """KL, estimated at the drawn positions if there are some and 0 if it is not used, then the changes of kept
        questions, which may be negative."""
        states = outcome.states
        if not self.wants_kl:
            kl = torch.zeros(states.shape[1], device=states.device)
        else:
            kl = batch.untouched.mean(states, drawn)
        return torch.cat([kl[:, None], batch.preferences.change(states)], 1)
