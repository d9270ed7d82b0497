"""`@das` and `@das:K`: a rotation that is learned so that setting its first K coordinates flips preferences.

Distributed alignment search (Geiger et al. 2024) learns a rotation for a given number of dimensions. Here the rotation
is learned first, with values for both directions, on training pairs. A search then treats it as a fixed basis, so that
every search works in it, and may choose fewer coordinates or others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.parametrizations import orthogonal

from pivotal.errors import PivotalError
from pivotal.models.bases import Basis
from pivotal.models.bases.basis import completed
from pivotal.models.edits import MaskedEdit
from pivotal.problem.bases import BasisKind
from pivotal.problem.bases.fitted import probe_of, training_states
from pivotal.records.basis import BasisCard
from pivotal.units import InBasis

if TYPE_CHECKING:
    from pivotal.problem.batch import Batch, Outcome
    from pivotal.problem.problem import Problem

_UPDATES, _PREFIXES = 120, 48
_RATE, _RATE_OF_VALUES = 0.01, 0.1
_STRIDE = 2.0
"""The scale of a value, in standard deviations of the states along a direction."""
_KL_WEIGHT = 0.1
"""The weight of KL in the loss, as in the default search."""


class DAS(BasisKind):
    """A learned rotation."""

    name: ClassVar[str] = "das"
    summary: ClassVar[str] = (
        "a rotation learned on training pairs so that setting its first coordinate flips preferences; @das:K for K"
    )

    def fit(self, wanted: InBasis, problem: Problem) -> Basis:
        argument, width = wanted.argument or "1", wanted.site.coordinates
        if not argument.isdigit() or not 1 <= int(argument) < width:
            raise PivotalError(
                f"The number of learned directions of {wanted.site.name} is from 1 to {width - 1}, but {argument!r} "
                f"was given. Write {wanted.name}, or {wanted.name}:2 for two."
            )
        states = training_states(problem)
        every = torch.cat(states)
        start = completed("start", probe_of(states)[None], every).decoder[: int(argument)]
        return completed(self.name, _Learner(wanted, problem, start, every).learn(), every)


class _Learner:
    """Learns some directions and, for each direction of the edit, the values to set them to."""

    def __init__(
        self,
        wanted: InBasis,
        problem: Problem,
        start: Float[Tensor, "some width"],
        states: Float[Tensor, "states width"],
    ) -> None:
        self._name, self._problem = wanted.name, problem
        self._mean = states.mean(0)
        some, width = start.shape
        # The parametrisation completes the rows to a square matrix at random, from the global generator.
        with torch.random.fork_rng([start.device] if start.is_cuda else []):
            torch.manual_seed(0)
            layer = nn.Linear(width, some, bias=False, device=start.device)
            with torch.no_grad():
                layer.weight.copy_(start)
            self._layer: Any = orthogonal(layer)
        self._spread = ((states - self._mean) @ start.T).std(0).clamp(min=1e-6) * _STRIDE
        # Direction d flips to label d. The probe is positive for the states that are flipped to label 1.
        self._x = torch.zeros(len(problem.labels), some, device=start.device)
        self._x[0, 0], self._x[1, 0] = 1.0, -1.0
        self._x.requires_grad_()
        self._card = BasisCard(kind="das", coordinates=some, fingerprint="learning")

    def learn(self) -> Float[Tensor, "some width"]:
        """The directions, orthonormal."""
        from pivotal.problem.objective import Terms

        terms, noise = Terms(kl_weight=_KL_WEIGHT), torch.Generator().manual_seed(0)
        parameters: list[dict[str, object]] = [
            {"params": list(self._layer.parameters()), "lr": _RATE},
            {"params": [self._x], "lr": _RATE_OF_VALUES},
        ]
        optimiser = torch.optim.Adam(parameters)
        batches = self._problem.batches(_PREFIXES)
        for update in range(_UPDATES):
            batch = batches[update % len(batches)]
            drawn = terms.draw(batch, noise)
            assert drawn is not None

            def passes(batch: Batch = batch, drawn: Tensor = drawn) -> None:
                optimiser.zero_grad()
                outcome = self._run(batch)
                loss = terms.loss(outcome) + terms.kl_weight * terms.kl(batch, outcome, drawn)
                loss.sum().backward()

            with torch.enable_grad():
                batch.as_memory_allows(passes)
            optimiser.step()
        return self._layer.weight.detach().clone()

    def _run(self, batch: Batch) -> Outcome:
        """A masked run with all directions set. It goes past `Batch.run`, because the basis changes with every
        update, and counts its own work."""
        from pivotal.problem.batch import Outcome

        rows = self._layer.weight
        basis = Basis("das", rows.T, rows, -(rows @ self._mean), whole=self._card)
        model = batch.model.in_bases({self._name: basis})
        space = model.unit_space(self._name)
        edit = MaskedEdit(space, torch.ones_like(self._x)[None], (self._spread * self._x)[None])
        states = model.states(batch.tensors.prepared, edit)
        edit.check_reached()
        batch.work.forward += batch.tree.n_live
        batch.work.backward += batch.tree.n_live
        return Outcome(batch.log_ratio_of(states), states, batch.tensors.weight)
