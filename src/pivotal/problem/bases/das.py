"""`@das` and `@das:K`: a rotation that is learned so that setting its first K coordinates does what a search asks for.

Distributed alignment search (Geiger et al. 2024) learns a rotation for a given number of dimensions. Here the rotation
is learned first, on training pairs, with the values and the objective of the search: an interchange exchanges the
coordinates, and otherwise values are learned for both directions. A search then treats it as a fixed basis, so that
every search works in it, and may choose fewer coordinates or others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.parametrizations import orthogonal

from pivotal.errors import PivotalError
from pivotal.models.bases import Basis
from pivotal.models.bases.basis import completed
from pivotal.models.edits import Sources
from pivotal.models.tree import Span
from pivotal.problem.activations import usual
from pivotal.problem.bases import BasisKind
from pivotal.problem.bases.fitted import difference_of_means, training_states
from pivotal.records.run import Progress
from pivotal.units import InBasis

if TYPE_CHECKING:
    from pivotal.problem.batch import Batch, Outcome
    from pivotal.problem.problem import Problem

_UPDATES, _PREFIXES = 120, 48
_RATE, _RATE_OF_VALUES = 0.01, 0.1
_STRIDE = 2.0
"""The scale of a value, in standard deviations of the states along a direction."""
_KL_WEIGHT = {"flips": 0.1, "counterfactual": 0.0}
"""The weight of KL in the loss for each objective. The counterfactual objective counts side effects itself, and what it
asks for has a KL: with a weight of 0.1, a rotation of the LSTM closes 86.4% of the gap, without it 88.2%."""


class DAS(BasisKind):
    """A learned rotation."""

    name: ClassVar[str] = "das"
    summary: ClassVar[str] = (
        "a rotation learned on training pairs for the values and objective of the search; @das:K learns K directions"
    )

    def fit(self, wanted: InBasis, problem: Problem) -> Basis:
        argument, width = wanted.argument or "1", wanted.site.coordinates
        if not argument.isdigit() or not 1 <= int(argument) < width:
            raise PivotalError(
                f"{wanted.name} learns 1 to {width - 1} directions, not {argument!r}. Write {wanted.name}:2 for two."
            )
        states = training_states(problem)
        every = torch.cat(states)
        start = completed("start", difference_of_means(states)[None], every).decoder[: int(argument)]
        return completed(self.name, _Learner(problem, start, every).learn(), every)


class _Learner:
    """Learns some directions and, unless states are exchanged, the values to set them to for each label."""

    def __init__(
        self, problem: Problem, start: Float[Tensor, "some width"], states: Float[Tensor, "states width"]
    ) -> None:
        self._problem, self._states = problem, states
        self._mean = states.mean(0)
        some, width = start.shape
        # The parametrisation completes the rows to a square matrix at random, from the global generator.
        with torch.random.fork_rng([start.device] if start.is_cuda else []):
            torch.manual_seed(0)
            layer = nn.Linear(width, some, bias=False, device=start.device)
            with torch.no_grad():
                layer.weight.copy_(start)
            self._layer: Any = orthogonal(layer)
        self._spread = self._along(start).std(0).clamp(min=1e-6) * _STRIDE
        # Direction d flips to label d. The start is positive for the states that are flipped to label 1.
        self._x = torch.zeros(len(problem.labels), some, device=start.device)
        self._x[0, 0], self._x[1, 0] = 1.0, -1.0
        self._x.requires_grad_()

    def learn(self) -> Float[Tensor, "some width"]:
        """The directions, orthonormal."""
        from pivotal.problem.objective import Terms

        weight = _KL_WEIGHT[self._problem.objective]
        terms, noise = Terms(kl_weight=weight), torch.Generator().manual_seed(0)
        parameters: list[dict[str, object]] = [
            {"params": list(self._layer.parameters()), "lr": _RATE},
            {"params": [self._x], "lr": _RATE_OF_VALUES},
        ]
        optimiser = torch.optim.Adam(parameters)
        batches = self._problem.batches(_PREFIXES)
        for update in range(_UPDATES):
            batch = batches[update % len(batches)]
            drawn = terms.draw(batch, noise)

            def passes(batch: Batch = batch, drawn: Tensor | None = drawn) -> Outcome:
                optimiser.zero_grad()
                outcome = self._run(batch)
                kl = weight * batch.untouched.mean(outcome.states, drawn) if weight else 0.0
                (terms.loss(outcome, drawn) + kl).sum().backward()
                return outcome

            with torch.enable_grad():
                outcome = batch.as_memory_allows(passes)
            optimiser.step()
            self._keep_natural()
            self._problem.report(Progress("das", update + 1, _UPDATES, accuracy=outcome.flips().tolist()))
        return self._layer.weight.detach().clone()

    @torch.no_grad()
    def _keep_natural(self) -> None:
        """Move the values into the range of the states along the directions, if they must be natural."""
        if self._problem.values == "natural":
            low, high = usual(self._along(self._layer.weight))
            self._x.clamp_(low / self._spread, high / self._spread)

    def _along(self, rows: Float[Tensor, "some width"]) -> Float[Tensor, "states some"]:
        return (self._states - self._mean) @ rows.T

    def _run(self, batch: Batch) -> Outcome:
        """A masked run with all directions set. It goes past `Batch.run`, because the basis changes with every
        update, and counts its own work."""
        (site,) = batch.space.sites
        edit = _AlongDirections(
            site.name, self._layer.weight, self._mean, self._spread * self._x, batch.sources
        )
        states = batch.model.states(batch.tensors.prepared, edit)
        batch.work.forward += batch.tree.n_live
        batch.work.backward += batch.tree.n_live
        return batch.outcome_of(states)


class _AlongDirections:
    """Sets the states of a site along some directions: to values, or to where the counterfactual states lie."""

    runs = 1

    def __init__(
        self,
        site: str,
        rows: Float[Tensor, "some width"],
        mean: Float[Tensor, " width"],
        values: Float[Tensor, "directions some"],
        sources: Sources | None,
    ) -> None:
        self.sites = frozenset({site})
        self._rows, self._mean, self._values, self._sources = rows, mean, values, sources

    def __call__(
        self, site: str, spans: Sequence[Span], h: Float[Tensor, "nodes _ width"]
    ) -> Float[Tensor, "nodes _ width"]:
        if site not in self.sites or not spans:
            return h
        moved = torch.zeros_like(h)
        for span in spans:
            rows = slice(span.start, span.stop)
            own = (h[rows] - self._mean) @ self._rows.T
            wanted = self._values[span.direction]
            if self._sources is not None:
                wanted = (self._sources.at(site, span) - self._mean) @ self._rows.T
            moved[rows] = ((wanted - own) @ self._rows).to(h.dtype)
        return h + moved
