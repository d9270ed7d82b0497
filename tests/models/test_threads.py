"""Several threads use one model, and memory that runs out: each gets what it gets alone, and with plenty of memory."""

import copy
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from threading import Barrier

import pytest
import torch
from tests.models.tiny import FEW, drawn, tiny_lm
from torch import Tensor

from pivotal import PivotalError, Problem, load_model, load_phenomenon
from pivotal.evidence.checks import paths_of
from pivotal.evidence.examination import Examination
from pivotal.models import LanguageModel
from pivotal.models.chunks import as_memory_allows
from pivotal.options import build
from pivotal.questions import MinimalPair, PairSet
from pivotal.searches import SEARCHES, LearnedMask, Progress

WORKERS, TIMES = 3, 12


def lstm() -> tuple[LanguageModel, str, str]:
    return load_model("wiki-lstm", device="cpu"), "all", "The doctor near the cars"


def transformer() -> tuple[LanguageModel, str, str]:
    return tiny_lm("llama"), "mlp", "The doctor near cars"


def at_once(work: Callable[[int], object]) -> list[object]:
    """Run `work` on every worker's number, all starting together."""
    barrier = Barrier(WORKERS)

    def start(worker: int) -> object:
        barrier.wait()
        return work(worker)

    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(start, range(WORKERS)))


@pytest.mark.parametrize("make", [lstm, transformer])
@pytest.mark.slow
def test_threads_get_what_each_gets_alone(make):
    model, sites, prompt = make()
    made = [drawn(model, sites, "every", seed) for seed in range(WORKERS)]
    ids = model.encode(prompt).ids
    edited = [model.intervened(one, "plural") for one in made]
    clean = model.next_logits([ids])
    alone = [one.next_logits([ids]) for one in edited]
    apart = [float((a - b).abs().max()) for a in [clean, *alone] for b in alone if a is not b]
    assert min(apart) > 1e-2, "interventions that do the same would show nothing"

    def work(worker: int) -> object:
        for _ in range(TIMES):
            torch.testing.assert_close(edited[worker].next_logits([ids]), alone[worker], rtol=0, atol=1e-4)
            torch.testing.assert_close(model.next_logits([ids]), clean, rtol=0, atol=1e-4)
        return edited[worker].generate(prompt, words=3, temperature=0.0)

    expected = [one.generate(prompt, words=3, temperature=0.0) for one in edited]
    assert at_once(work) == expected


@pytest.mark.slow
def test_searches_of_several_threads_share_a_model():
    """The backward pass runs parts of the tree again, with hooks, while another thread may be in its own pass."""
    model = tiny_lm("llama", batch_nodes=16)
    search = LearnedMask(max_units=2, updates=4, refit=2)

    def work(worker: int) -> object:
        return search.solve(Problem(model, FEW, sites="mlp", steps="every"), runs=2, seed=worker)

    alone = [work(worker) for worker in range(WORKERS)]
    found = at_once(work)
    assert [d.best.units for d in found] == [d.best.units for d in alone]


TEXTS = product(("The", "Some"), ("doctor", "cars"), ("near", "behind"), ("doctors", "car"))
SIXTEEN = tuple(MinimalPair(" ".join(words), 1, ("runs", "run")) for words in TEXTS)
PAIRS = PairSet("few", ("a", "b"), SIXTEEN)
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
def test_a_search_that_ran_out_of_memory_finds_what_it_would_have_found(search):
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
        assert f"(--batch-nodes {nodes})" in str(one.message)


@pytest.mark.parametrize(("measure", "short"), [("the range of values", 1), ("the direct path", 5)])
def test_what_is_measured_does_not_depend_on_memory(measure, short, monkeypatch):
    """A pass that is repeated in smaller parts sees some nodes twice."""
    monkeypatch.setattr("pivotal.models.chunks.FEWEST", 8)

    def measured(fails: set[int]) -> list[float]:
        model, passes = tiny_lm("llama", batch_nodes=16), iter(range(100))
        problem = Problem(model, PAIRS, sites="mlp,resid")
        examination = Examination(drawn(model, "mlp", "every"), problem)
        assert examination.outcome and problem.clean_log_ratio is not None

        def run_out(*_: object) -> None:
            if next(passes) in fails:
                raise torch.OutOfMemoryError("CUDA out of memory.")

        last = model.taps[-1].module
        assert isinstance(last, torch.nn.Module)
        last.register_forward_pre_hook(run_out)
        if measure == "the direct path":
            found = paths_of(examination)
            return [found.change, found.last_step, found.direct or 0.0]
        found = problem.measure_activations()
        return torch.cat([found.own.flatten(), found.scale]).tolist()

    expected = measured(set())
    with pytest.warns(UserWarning, match="half as many nodes at once"):
        assert measured({short}) == pytest.approx(expected, abs=1e-5)


def test_a_bound_that_two_models_come_to_is_told_once():
    """A model and its copy with further sites run out of memory one after the other, in different places."""
    first, fails = Scarce().model, iter([True, False, True, False])
    second = copy.copy(first)

    def short() -> None:
        if next(fails):
            raise torch.OutOfMemoryError("CUDA out of memory.")

    def read(model: LanguageModel) -> None:
        as_memory_allows(model, short)

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        read(first)
        read(second)
    assert [str(one.message)[:14] for one in said] == ["Out of memory:"]


@pytest.mark.slow
def test_what_was_too_much_is_gone_before_it_is_tried_again():
    scarce = Scarce(1)
    with pytest.warns(UserWarning, match="2048"):
        solved("learned", scarce)
    assert scarce.alive[1] == 0


def test_it_gives_up_where_there_is_nothing_to_halve():
    with pytest.raises(PivotalError, match="does not fit into memory even with 64 nodes"):
        solved("learned", Scarce(*range(1, 100), batch_nodes=64))


def test_a_model_that_knows_no_bound_says_that_memory_ran_out():
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
