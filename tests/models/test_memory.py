"""Memory that runs out on the way back: less at once, said, and the same answer."""

from __future__ import annotations

import weakref
from itertools import product

import pytest
import torch
from tests.models.tiny import tiny_lm
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.models import load_model
from pivotal.options import build
from pivotal.problem.problem import Problem
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.questions.phenomena import load_phenomenon
from pivotal.searches import SEARCHES
from pivotal.searches.base import Progress

PAIRS = PairSet(
    "few",
    ("a", "b"),
    tuple(
        MinimalPair(" ".join(words), 1, ("runs", "run"))
        for words in product(("The", "Some"), ("doctor", "cars"), ("near", "behind"), ("doctors", "car"))
    ),
)
SHORT = {"refit": 3}
SETTINGS = {
    "learned": {**SHORT, "updates": 8, "max_kl": 0.2, "max_fractional": 3, "batch": 4, "pool": 30},
    "reinforce": {**SHORT, "updates": 8, "max_kl": 0.2, "batch": 4},
    "attribution": {**SHORT, "value": "bound"},
    "greedy": {**SHORT, "max_kl": 0.2},
}


class Scarce:
    """A model whose way back runs out of memory at some of the times that it is gone."""

    def __init__(self, *fails: int, batch_nodes: int = 4096) -> None:
        self.model = tiny_lm("llama", batch_nodes=batch_nodes)
        self.fails, self.backward = fails, 0
        self.alive: list[int] = []
        self._seen: list[weakref.ref[Tensor]] = []
        self._real = self.model.run_chunk
        self.model.run_chunk = self._run

    def _run(self, chunk: object, edit: object) -> Tensor:
        states = self._real(chunk, edit)
        if states.requires_grad:
            self.alive.append(sum(ref() is not None for ref in self._seen))
            self._seen = [weakref.ref(states)]
            states.register_hook(self._back)
        return states

    def _back(self, grad: Tensor) -> None:
        self.backward += 1
        if self.backward in self.fails:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")


def solved(search: str, scarce: Scarce) -> tuple[object, ...]:
    """All that a search gives and tells."""
    problem = Problem(scarce.model, PAIRS, sites="mlp")
    told: list[Progress] = []
    chosen = build(dict(SEARCHES.items())[search], {**SETTINGS[search], "max_units": 2})
    found = chosen.solve(problem, runs=2, seed=3, progress=told.append)
    units = [(one.units, one.values.tolist()) for one in found.interventions]
    return units, found.train_score, found.stages, told, problem.work


@pytest.mark.parametrize("search", SETTINGS)
@pytest.mark.slow
def test_a_search_that_ran_out_of_memory_finds_what_it_would_have_found(search: str) -> None:
    plenty = Scarce()
    expected = solved(search, plenty)
    last = plenty.backward
    assert last >= 4
    fails = (1, 4, 5, last + 3)  # the first, two in a row, and the last: the gradients of a fit
    scarce = Scarce(*fails)
    with pytest.warns(UserWarning, match="half as many nodes at once") as said:
        found = solved(search, scarce)
    assert scarce.backward == last + len(fails)
    assert found == expected
    for one, nodes in zip(said, (2048, 1024, 512, 256), strict=True):
        assert f"at once, {nodes} " in str(one.message)


@pytest.mark.slow
def test_what_was_too_much_is_gone_before_it_is_tried_again() -> None:
    scarce = Scarce(1)
    with pytest.warns(UserWarning, match="2048"):
        solved("learned", scarce)
    assert scarce.alive[1] == 0


def test_it_gives_up_where_there_is_nothing_to_halve() -> None:
    with pytest.raises(PivotalError, match="does not fit into memory even with 64 nodes"):
        solved("learned", Scarce(*range(1, 100), batch_nodes=64))


def test_a_model_that_knows_no_bound_says_that_memory_ran_out() -> None:
    """A bound that it was given does not count: it would be halved and halved to no effect."""
    model = load_model("planted", device="cpu", batch_nodes=4096)
    problem = Problem(model, load_phenomenon("planted").sample(20))
    times = 0

    def passes() -> None:
        nonlocal times
        times += 1
        raise torch.OutOfMemoryError("CUDA out of memory.")

    with pytest.raises(torch.OutOfMemoryError):
        problem.as_memory_allows(passes)
    assert times == 1
