"""Batches padded to one shape: the same figures as each batch in its own shape, and the same search."""

import itertools
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
import torch
from tests.models.tiny import random_model, tokenizer
from tests.problem.test_problem import small_model
from torch import Tensor

from pivotal import Problem, load_phenomenon
from pivotal.models import LanguageModel, TransformersLM
from pivotal.models.edits import MaskedEdit
from pivotal.models.padded_trees import Shape
from pivotal.models.planted import plant
from pivotal.models.replay import Replay, Unrecordable, shape_of
from pivotal.models.transformers.trunk import Trunk
from pivotal.problem.kept import KeptSentences, Stay
from pivotal.problem.objective import Terms
from pivotal.problem.passes import How, Passes, recording
from pivotal.questions import MinimalPair, PairSet
from pivotal.searches import Discovery, LearnedMask, Reinforce, Search
from pivotal.searches.tools.refit import Refit
from pivotal.units import Steps

BOTH_STEPS = pytest.mark.parametrize("steps", ["single", "every"])
MODELS = pytest.mark.parametrize("name", ["lstm", "llama", "llama with <s>"])
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
TERMS = Terms(kl_weight=0.1)
BATCH = 6


@cache
def model_of(name: str) -> LanguageModel:
    if name == "lstm":
        return small_model()
    return TransformersLM(name, random_model("llama"), tokenizer(bos="<s>" in name))


def pairs_of(name: str) -> PairSet:
    """Prefixes of two to six words, edited at different words, so that few batches have the same tree."""
    nouns = ("cat", "cats", "dog") if name == "lstm" else ("doctor", "doctors", "car", "cars")
    verbs = ("runs", "run")
    long = [f"The {a} near {b} near {c}" for a, b, c in itertools.product(nouns, repeat=3)]
    prefixes = [" ".join(text.split()[: 2 + i % 5]) for i, text in enumerate(long)]
    pairs = [
        MinimalPair(prefix, (1, 3)[i % 2] if len(prefix.split()) > 3 else 1, verbs, group="")
        for i, prefix in enumerate(dict.fromkeys(prefixes))
    ]
    return PairSet("near", ("singular", "plural"), tuple(pairs))


def problem_of(name: str, steps: Steps) -> Problem:
    return Problem(model_of(name), pairs_of(name), steps=steps)


@dataclass(frozen=True)
class Nothing:
    factor: float | Tensor


@MODELS
@BOTH_STEPS
def test_padded_trees_have_one_shape_and_the_states_of_their_own(name, steps):
    problem = problem_of(name, steps)
    trees = [batch.tree for batch in problem.batches(BATCH)]
    assert len({len(tree) for tree in trees}) > 1
    shape, model = Shape.of(trees), problem.model
    shapes = []
    for tree in trees:
        padded = shape.pad(tree)
        assert len(padded.tree) == len(shape) >= len(tree)
        found, expected = (model.states(model.prepare(one))[:, 0] for one in (padded.tree, tree))
        rows = padded.tree.live_row[padded.node[tree.live]]
        torch.testing.assert_close(found[torch.as_tensor(rows)], expected, rtol=1e-4, atol=1e-5)
        shapes.append(shape_of(model.fixed(model.prepare(padded.tree), 2)))
    assert all(one == shapes[0] for one in shapes)


@pytest.mark.parametrize("name", ["llama", "llama with <s>"])
@BOTH_STEPS
def test_batches_begin_at_the_inputs_that_the_first_pass_has_kept(name, steps, monkeypatch):
    problem = problem_of(name, steps)
    model, batches = problem.model, problem.batches(BATCH)
    entered, enter = [], Trunk._enter
    monkeypatch.setattr(Trunk, "_enter", lambda *given: (entered.append(given), enter(*given)))
    space = model.unit_space(model.sites[-2].name)
    values = torch.randn(2, 2, len(space), generator=torch.Generator().manual_seed(0))
    mask = torch.ones(2, len(space))
    for batch in batches:
        found, expected = (
            model.states(prepared, MaskedEdit(space, mask, values))
            for prepared in (batch.tensors.prepared, model.prepare(batch.tree))
        )
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert len(entered) == len(batches), "only the trees that know nothing of the first pass enter from below"


@MODELS
@BOTH_STEPS
def test_an_update_in_one_shape_measures_what_an_update_in_its_own_shape_does(name, steps):
    """All batches one after another, twice, so that what is left of another batch in a buffer would show."""
    sites = problem_of(name, steps).space.sites
    found: dict[How, list[Tensor]] = {}
    for how in ("never", "unrecorded"):
        problem, noise = problem_of(name, steps), torch.Generator().manual_seed(0)
        shape = (3, 2, len(problem.space))
        mask = torch.rand(shape, generator=noise).round().requires_grad_()
        values = torch.randn(shape, generator=noise).requires_grad_()
        seen: list[Tensor] = []

        def down(
            batch: Problem,
            drawn: Tensor | None,
            given: Nothing,
            mask: Tensor = mask,
            values: Tensor = values,
        ) -> Tensor:
            outcome = batch.run(mask, values, sites=sites)
            costs = TERMS.costs(batch, outcome, drawn)[:, 0]
            loss = given.factor * TERMS.loss(outcome) + costs
            flips = outcome.flips()
            grads = torch.autograd.grad(loss.sum(), (mask, values))
            return torch.cat([loss.detach(), costs.detach(), flips, *(grad.flatten() for grad in grads)])

        with recording(how) as account:
            passes: Passes[Nothing, Tensor] = Passes(problem, BATCH, 0, 3, 20)
            for number in [*range(len(passes.batches))] * 2:
                drawn = TERMS.draw(passes.batches[number], noise, 4)
                seen.append(passes(number, drawn, Nothing(1.0 + number), down, lambda *_: None).clone())
        assert passes.fixed == (how == "unrecorded") == bool(account.recorded) == (passes.reason is None)
        found[how] = [torch.tensor([problem.work.forward, problem.work.backward]), *seen]
    for one, other in zip(found["never"], found["unrecorded"], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


def solved(search: Search, problem: Problem, how: How, runs: int = 2) -> tuple[Discovery, int]:
    with recording(how) as account:
        return search.solve(problem, runs=runs), account.recorded


@pytest.mark.parametrize(
    "search",
    [
        LearnedMask(max_units=3, updates=30, refit=6, batch=32),
        LearnedMask(max_units=3, updates=30, refit=6, batch=32, max_kl=0.2, max_fractional=0.1),
        Reinforce(max_units=3, updates=20, refit=6, batch=32),
    ],
)
@BOTH_STEPS
def test_a_search_in_one_shape_finds_the_same_units(search, steps):
    pairs = load_phenomenon("planted").sample(120)
    problems = [Problem(plant().model, pairs, steps=steps) for _ in range(2)]
    (plain, none), (fixed, some) = (
        solved(search, problem, how) for problem, how in zip(problems, ("never", "unrecorded"), strict=True)
    )
    assert none == 0 < some
    assert [one.units for one in fixed.interventions] == [one.units for one in plain.interventions]
    assert np.allclose(fixed.train_score, plain.train_score, atol=1e-4)
    assert problems[0].work == problems[1].work


def test_what_has_no_fixed_shape_is_run_in_its_own():
    def reason(problem: Problem, runs: int = 1) -> str:
        with recording("unrecorded"):
            return str(Passes(problem, BATCH, 0, runs, 20).reason)

    planted = Problem(plant().model, load_phenomenon("planted").sample(60))
    assert reason(planted) == "None"
    interchange = Problem(plant().model, load_phenomenon("planted").sample(60), values="interchange")
    assert "counterfactual" in reason(interchange)
    stays = Stay.of("planted")
    kept = planted.keeping(KeptSentences.of(planted.model, [stays], "every"))
    assert "kept questions" in reason(kept)
    tree = TransformersLM("small parts", random_model("llama"), tokenizer(), batch_nodes=64)
    assert reason(Problem(tree, pairs_of("llama"))) == "None"
    large = PairSet("long", ("singular", "plural"), pairs_of("llama").pairs)
    with recording("unrecorded"):
        assert "in parts" in str(Passes(Problem(tree, large), 0, 0, 8, 20).reason)
    with recording("auto"):
        assert "only a CUDA device" in str(Passes(planted, BATCH, 0, 1, 20).reason)


def failing_at_the_third_update(problem: Problem, error: Exception) -> list[int]:
    """Let the batches of a problem in one shape fail once. Returns a list that grows with every update."""
    fixed = problem.fixed_batches(8)
    anew, calls = fixed.anew, []

    def failing() -> Problem:
        calls.append(1)
        if len(calls) == 3:
            raise error
        return anew()

    fixed.anew = failing
    return calls


@pytest.mark.parametrize(
    "error", [Unrecordable("stream is capturing"), torch.OutOfMemoryError("stream is capturing")]
)
def test_an_update_that_cannot_be_recorded_is_done_in_the_plain_way(error):
    """The failing update is repeated, and later fits do not try again. The user is told once."""
    problems = [Problem(plant().model, load_phenomenon("planted").sample(60)) for _ in range(2)]
    mask = torch.zeros(1, 2, len(problems[0].space))
    mask[..., :4] = 1.0
    plain = Refit(TERMS, updates=6, batch=8).fit(problems[0], mask)
    calls = failing_at_the_third_update(problems[1], error)
    with recording("unrecorded") as account:
        with pytest.warns(UserWarning, match=r"cannot be replayed.*slower.*\(stream is capturing\)"):
            found = Refit(TERMS, updates=6, batch=8).fit(problems[1], mask)
        Refit(TERMS, updates=6, batch=8).fit(problems[1], mask)
    assert len(calls) == 3 and account.recorded == 0
    assert account.reasons == ["stream is capturing"] * 2
    torch.testing.assert_close(found.values, plain.values)


def test_an_error_of_an_update_is_not_hidden():
    problem = Problem(plant().model, load_phenomenon("planted").sample(60))
    failing_at_the_third_update(problem, RuntimeError("shapes do not match"))
    mask = torch.ones(1, 2, len(problem.space))
    with recording("unrecorded"), pytest.raises(RuntimeError, match="shapes do not match"):
        Refit(TERMS, updates=6, batch=8).fit(problem, mask)


@GPU
@pytest.mark.parametrize("name", ["planted", "llama"])
def test_a_recording_finds_what_its_function_finds(name):
    """On a GPU, replayed and not replayed: the same kernels, so the same digits."""
    if name == "planted":
        from pivotal.models import load_model

        model, pairs = load_model("planted", device="cuda"), load_phenomenon("planted").sample(120)
    else:
        model, pairs = TransformersLM(name, random_model(name).cuda(), tokenizer()), pairs_of(name)
    search = LearnedMask(max_units=2, updates=30, refit=40, batch=BATCH)
    (once, some), (again, same) = (
        solved(search, Problem(model, pairs), how) for how in ("unrecorded", "auto")
    )
    assert some == same > 1  # fits of 20 updates and of 40
    assert again.interventions == once.interventions and again.train_score == once.train_score


@GPU
def test_what_waits_for_the_gpu_cannot_be_recorded_and_has_not_been_run():
    count, device = torch.zeros(1, device="cuda"), torch.device("cuda", 0)

    def add() -> Tensor:
        count.add_(1)
        return count * count.item()

    replay = Replay(device)
    assert replay(add).item() == 1
    with pytest.raises(Unrecordable):
        replay(add)
    assert count.item() == 1
