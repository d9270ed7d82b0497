"""Multipliers: rise while the constraint is violated, fall while it holds, and never push the wrong way."""

from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pivotal.searches.tools.lagrangian import Adam, Bounds, Multiplier

# Loading a model flushes subnormal numbers to zero for the whole process, and hypothesis would object.
floats = partial(st.floats, allow_nan=False, allow_subnormal=False)


def test_a_multiplier_starts_at_nothing_and_follows_the_violation_of_its_own_run():
    multiplier = Multiplier(3, rate=0.5)
    assert multiplier.value.tolist() == [0, 0, 0]
    multiplier.ascend(torch.tensor([2.0, -2.0, 0.0]))
    assert multiplier.value.tolist() == [1, 0, 0]
    multiplier.ascend(torch.tensor([-1.0, 4.0, 0.0]))
    assert multiplier.value.tolist() == [0.5, 2, 0]


@given(st.lists(floats(-5, 5, width=32), min_size=1, max_size=30), floats(0.01, 5), floats(0, 5))
def test_the_pressure_stays_in_its_range(violations, rate, damping):
    multiplier = Multiplier(1, rate, damping=damping, largest=3.0)
    for violation in violations:
        multiplier.ascend(torch.tensor([violation]))
        assert 0 <= multiplier.value.item() <= 3
        assert 0 <= multiplier.pressure(torch.tensor([violation])).item() <= 3


@pytest.mark.parametrize(
    ("value", "damping", "violation", "slope"),
    [
        (0.0, 0.0, 1.0, 0.0),  # without damping only the past counts
        (2.0, 0.0, -1.0, 2.0),
        (1.0, 3.0, 0.5, 2.5),  # with it the violation answers at once
        (1.0, 3.0, -0.5, 0.0),  # and eases off at once: never a push towards violating
        (0.0, 3.0, 100.0, 20.0),
    ],
)
def test_the_slope_is_the_pressure(value, damping, violation, slope):
    multiplier = Multiplier(1, 0.1, damping=damping)
    multiplier.value = torch.tensor([value])
    by = torch.tensor([violation], requires_grad=True)
    multiplier.term(by).sum().backward()
    assert by.grad.item() == pytest.approx(slope)


def test_gradient_descent_with_a_multiplier_solves_a_constrained_problem():
    """min (x - 3)^2 subject to log(x / 1) <= 0 has its solution at the bound, with lambda = 4."""
    x = torch.tensor([2.5], requires_grad=True)
    multiplier = Multiplier(1, 0.1, damping=5.0)
    optimiser = torch.optim.SGD([x], lr=0.05)
    for _ in range(500):
        violation = x.log()
        optimiser.zero_grad()
        ((x - 3) ** 2 + multiplier.term(violation)).sum().backward()
        optimiser.step()
        multiplier.ascend(violation.detach())
    assert x.item() == pytest.approx(1, abs=0.01)
    assert multiplier.value.item() == pytest.approx(4, abs=0.1)


def bound(runs: int = 1, *bounds: float) -> Bounds:
    return Bounds(runs, torch.tensor(bounds or [0.1]), rate=0.1, damping=1.0)


def test_every_cost_has_its_own_multiplier_and_an_infinite_bound_none():
    constraint = bound(1, 0.1, 0.1, torch.inf)
    costs = torch.tensor([[0.5, 0.01, 9.0]], requires_grad=True)
    for _ in range(5):
        term = constraint.term(costs)
        constraint.ascend(costs)
    term.sum().backward()
    assert costs.grad is not None and (costs.grad > 0).tolist() == [[True, False, False]]
    assert (constraint.price > 0).tolist() == [[True, False, False]]


def test_a_change_is_pushed_towards_zero_from_either_side():
    """The first cost is KL, which is never negative."""
    costs = torch.tensor([[0.0, 0.5, -0.5, 0.2, 0.02]], requires_grad=True)
    constraint = bound(1, *[0.1] * 5)
    for _ in range(5):
        term = constraint.term(costs)
        constraint.ascend(costs)
    term.sum().backward()
    _, up, down, less, kept = costs.grad[0].tolist()
    assert up == -down > 0 and less > 0 and kept == 0


def test_a_large_excess_does_not_push_in_proportion():
    slopes = []
    for size in (0.2, 20.0):
        constraint = bound()
        kl = torch.tensor([[size]], requires_grad=True)
        constraint.term(kl).sum().backward()
        slopes.append((kl.grad * kl).item())
    # The push on log KL grows with the logarithm of the excess: log 200 / log 2, not 100.
    assert slopes[1] / slopes[0] == pytest.approx(7.64, abs=0.1)


def test_state_and_restore_continue_as_if_nothing_had_happened():
    series = [torch.tensor([[k]]) for k in (0.5, 0.1, 0.9, 0.3, 0.2)]
    whole = _terms(bound(), series)
    first, second = bound(), bound()
    _terms(first, series[:2])
    second.restore(first.state())
    assert _terms(second, series[2:]) == whole[2:]


def test_a_term_can_be_asked_for_again():
    """An update that ran out of memory is begun again: only `ascend` may change what comes next."""
    once, twice = bound(), bound()
    for size in (0.5, 0.1, 0.9):
        kl = torch.tensor([[size]])
        twice.term(kl)
        assert once.term(kl).item() == twice.term(kl).item()
        once.ascend(kl)
        twice.ascend(kl)
    assert once.price.item() == twice.price.item() > 0


def _terms(constraint: Bounds, series: list[torch.Tensor]) -> list[float]:
    found = []
    for kl in series:
        found.append(constraint.term(kl).item())
        constraint.ascend(kl)
    return found


def test_adam_is_that_of_pytorch():
    start = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    ours, theirs = start.clone().requires_grad_(), start.clone().requires_grad_()
    optimiser, reference = Adam([(ours, 0.1)]), torch.optim.Adam([theirs], 0.1, betas=(0.9, 0.99))
    for update in range(6):
        if update == 3:
            resumed = Adam([(ours, 0.1)])
            resumed.restore(optimiser.state())
            optimiser = resumed
        for parameter in (ours, theirs):
            parameter.grad = torch.sin(parameter.detach() + update)
        optimiser.step()
        reference.step()
    assert torch.equal(ours, theirs)
