"""The recurrent cells. The element-wise part of the LSTM is one autograd node, for speed.

Each cell takes the two halves of its gates (from the input and from the parent's state) and the parent's memory. The
model computes the matrix products outside, once per parent instead of once per child.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pivotal.models.tensors import added_up, shared_rows


@dataclass(frozen=True, slots=True)
class Incoming:
    """The inputs of the nodes of a level."""

    x: Float[Tensor, "nodes _ input"]
    """The input of each node, or its gates if `weight` is None."""
    weight: Float[Tensor, "gates input"] | None
    bias: Float[Tensor, " gates"] | None
    r: Float[Tensor, "parents _ gates"]
    """The gates from the parents' states. `r[up]` are those of each node."""
    up: Int[Tensor, " nodes"]
    carry: Float[Tensor, "above _ hidden"]
    """c of the level above, or h in a network without c. `carry[parent]` is that of each node's parent."""
    parent: Int[Tensor, " nodes"]

    def gates(self) -> tuple[Float[Tensor, "nodes _ gates"], Float[Tensor, "nodes _ gates"]]:
        """Both halves of the gates of each node."""
        x = self.x if self.weight is None else torch.nn.functional.linear(self.x, self.weight, self.bias)
        return x, shared_rows(self.r, self.up)


Step = Callable[[Incoming], tuple[Tensor, Tensor | None]]


@dataclass(frozen=True, slots=True)
class RecurrentCell:
    """One kind of recurrent network."""

    scales: tuple[float, ...]
    """A factor for each block of gates, multiplied into the weights when they are loaded."""
    step: Step
    """New h and c of the nodes."""
    has_memory: bool = False
    """Whether there is a state besides h (the LSTM's c)."""
    one_bias: bool = True
    """Whether the two halves of the gates are only added, so that one bias can replace both."""

    @property
    def gates(self) -> int:
        """The number of gate blocks in the weight matrices."""
        return len(self.scales)

    def scale(self, hidden: int) -> Float[Tensor, " gates"]:
        """A factor for each row of the gates."""
        return torch.tensor(self.scales).repeat_interleave(hidden)


def _through_tanh(grad: Tensor, y: Tensor) -> Tensor:
    """grad * (1 - y^2) for y = tanh(x), in place and in one pass."""
    return torch.ops.aten.tanh_backward.grad_input(grad, y, grad_input=grad)


class _LSTMStep(torch.autograd.Function):
    """The element-wise part as one autograd node with few passes over memory. As separate operations it would cost more
    than the matrix products on a CPU.

    The sigmoid gates are halved. Since sigmoid(2z) = (1 + tanh(z)) / 2, one a = tanh(z) over all four gates gives
    i, f, o = (1 + a) / 2 and g = a.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor | None, r: Tensor, up: Tensor, carry: Tensor, parent: Tensor
    ) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        a = r.index_select(0, up)
        if weight is None:
            a = a.add_(x) if a.shape[1] >= x.shape[1] else x + a
        elif a.shape[1] == x.shape[1]:
            # flatten is a view here, so the product is added in place.
            a.flatten(0, 1).addmm_(x.flatten(0, 1), weight.t())
        else:
            a = torch.nn.functional.linear(x, weight) + a  # either side may still have a single run
        a.tanh_()
        c = carry.index_select(0, parent)
        i, f, g, o = a.chunk(4, -1)
        new_c = torch.addcmul(c, f, c).add(torch.addcmul(g, i, g)).mul_(0.5)
        t = torch.tanh(new_c)
        h = torch.addcmul(t, o, t).mul_(0.5)
        ctx.save_for_backward(a, c, t, up, parent, weight)
        ctx.above = len(r), len(carry)
        ctx.set_materialize_grads(False)  # the c of the last words is unused: make no zeros for it
        return h, new_c

    @staticmethod
    def backward(ctx: Any, dh: Tensor | None, dc: Tensor | None) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        a, c, t, up, parent, weight = ctx.saved_tensors
        i, f, g, o = a.chunk(4, -1)
        # d is half of the derivative by the new c, as each of its uses below needs it
        half = torch.zeros_like(t) if dh is None else dh * 0.5
        d = _through_tanh(torch.addcmul(half, half, o), t)
        d = (d if dc is None else d.add_(dc)).mul_(0.5)
        grad = torch.empty_like(a)
        gi, gf, gg, go = grad.chunk(4, -1)
        torch.mul(d, g, out=gi)
        torch.mul(d, c, out=gf)
        torch.addcmul(d, d, i, out=gg)
        torch.mul(half, t, out=go)
        _through_tanh(grad, a)
        grad_x = grad_r = grad_c = None
        if ctx.needs_input_grad[0]:
            grad_x = grad if weight is None else grad @ weight
        if ctx.needs_input_grad[2]:
            grad_r = added_up(grad, up, ctx.above[0])
        if ctx.needs_input_grad[4]:
            grad_c = added_up(d.addcmul(d, f), parent, ctx.above[1])
        return grad_x, None, grad_r, None, grad_c, None


def _lstm(incoming: Incoming) -> tuple[Tensor, Tensor | None]:
    i = incoming
    h, c = _LSTMStep.apply(i.x, i.weight, i.r, i.up, i.carry, i.parent)
    return h, c


def _gru(incoming: Incoming) -> tuple[Tensor, Tensor | None]:
    x, r = incoming.gates()
    x_reset, x_update, x_new = x.chunk(3, -1)
    r_reset, r_update, r_new = r.chunk(3, -1)
    new = torch.tanh(x_new + torch.sigmoid(x_reset + r_reset) * r_new)
    carry = shared_rows(incoming.carry, incoming.parent)
    return torch.lerp(new, carry.expand_as(new), torch.sigmoid(x_update + r_update)), None


def _rnn(incoming: Incoming) -> tuple[Tensor, Tensor | None]:
    x, r = incoming.gates()
    return torch.tanh(x + r), None


CELLS: dict[str, RecurrentCell] = {
    # The sigmoid gates (i, f, o) are halved, so that one tanh computes all four gates.
    "lstm": RecurrentCell((0.5, 0.5, 1.0, 0.5), _lstm, has_memory=True),
    "gru": RecurrentCell((1.0, 1.0, 1.0), _gru, one_bias=False),
    "rnn": RecurrentCell((1.0,), _rnn),
}
