"""Several threads use one model, each with an intervention of its own, and get what each gets alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch
from tests.models.tiny import FEW, drawn, tiny_lm

from pivotal.models import LanguageModel, load_model
from pivotal.problem.problem import Problem
from pivotal.records.intervention import Intervention
from pivotal.searches.learned import LearnedMask
from pivotal.units import Steps

WORKERS, TIMES = 3, 12


def interventions(model: LanguageModel, sites: str, steps: Steps = "every") -> list[Intervention]:
    """One for each worker, in different units."""
    return [drawn(model, sites, steps, seed) for seed in range(WORKERS)]


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
def test_threads_get_what_each_gets_alone(make: Callable[[], tuple[LanguageModel, str, str]]) -> None:
    model, sites, prompt = make()
    made, ids = interventions(model, sites), model.encode(prompt).ids
    edited = [model.intervened(one, "plural") for one in made]
    clean = model.next_logits([ids])
    alone = [one.next_logits([ids]) for one in edited]
    apart = [float((a - b).abs().max()) for a in [clean, *alone] for b in alone if a is not b]
    assert min(apart) > 1e-2, "interventions that do the same would show nothing"

    def work(worker: int) -> object:
        for _ in range(TIMES):
            torch.testing.assert_close(edited[worker].next_logits([ids]), alone[worker], rtol=0, atol=1e-4)
            with model.intervened(made[worker], "plural"):
                torch.testing.assert_close(model.next_logits([ids]), alone[worker], rtol=0, atol=1e-4)
            torch.testing.assert_close(model.next_logits([ids]), clean, rtol=0, atol=1e-4)
        return edited[worker].generate(prompt, words=3, temperature=0.0)

    expected = [one.generate(prompt, words=3, temperature=0.0) for one in edited]
    assert at_once(work) == expected


def test_a_block_holds_in_its_own_thread_and_task_only() -> None:
    model, sites, prompt = transformer()
    one = interventions(model, sites)[0]
    clean = model.next_words(prompt)
    with model.intervened(one, "plural") as edited, ThreadPoolExecutor(1) as pool:
        assert model.next_words(prompt) != clean
        assert pool.submit(model.next_words, prompt).result() == clean
        assert pool.submit(edited.next_words, prompt).result() == model.next_words(prompt)

    async def inside() -> list[tuple[str, float]]:
        with model.intervened(one, "plural"):
            await asyncio.sleep(0)
            return model.next_words(prompt)

    async def outside() -> list[tuple[str, float]]:
        await asyncio.sleep(0)
        return model.next_words(prompt)

    async def both() -> list[list[tuple[str, float]]]:
        return await asyncio.gather(inside(), outside())

    # In a thread of its own: another test of the process may have left an event loop in this one.
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(lambda: asyncio.run(both())).result()
    assert found == [edited.next_words(prompt), clean]


def test_a_block_concerns_its_own_model() -> None:
    (a, sites, prompt), (b, _, _) = transformer(), transformer()
    clean = b.next_words(prompt)
    with a.intervened(interventions(a, sites)[0], "plural"):
        assert b.next_words(prompt) == clean != a.next_words(prompt)


@pytest.mark.slow
def test_searches_of_several_threads_share_a_model() -> None:
    """The backward pass runs parts of the tree again, with hooks, while another thread may be in its own pass."""
    model = tiny_lm("llama", batch_nodes=16)
    search = LearnedMask(max_units=2, updates=4, refit=2)

    def work(worker: int) -> object:
        return search.solve(Problem(model, FEW, sites="mlp", steps="every"), runs=2, seed=worker)

    alone = [work(worker) for worker in range(WORKERS)]
    found = at_once(work)
    assert [d.best.units for d in found] == [d.best.units for d in alone]  # type: ignore[attr-defined]
