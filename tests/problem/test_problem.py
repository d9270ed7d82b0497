"""The masked run and KL against their naive definitions, one sentence and one position at a time."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pivotal import PivotalError, Problem, load_phenomenon
from pivotal.models import RecurrentLM
from pivotal.models.edits import MaskedEdit
from pivotal.models.planted import plant
from pivotal.models.tree import PrefixTree
from pivotal.problem.divergence import divergence
from pivotal.questions import MinimalPair, PairSet
from pivotal.records.summary import told_reasons
from pivotal.units import Steps

LABELS = ("singular", "plural")
WORDS = ["<eos>", "<unk>", "The", "the", "cat", "cats", "dog", "near", "sleeps", "sleep", "runs", "run"]
PREFIXES = [
    "The cat", "The cats", "The cat near the dog", "The dog near the cat", "the cats near the cats", "cat",
]  # fmt: skip
BOTH_STEPS = pytest.mark.parametrize("steps", ["single", "every"])


def small_model(equal: tuple[str, ...] = ()) -> RecurrentLM:
    """A small model. The words in `equal` always have the same probability."""
    torch.manual_seed(3)
    modules = nn.Embedding(len(WORDS), 6), nn.LSTM(6, 7, num_layers=2), nn.Linear(7, len(WORDS))
    with torch.no_grad():
        for module in modules:
            for weight in module.parameters():
                weight.mul_(1.5)
        for weight in modules[2].parameters():
            for word in equal:
                weight[WORDS.index(word)] = weight[WORDS.index(equal[0])]
    return RecurrentLM.from_modules("small", *modules, WORDS)


def pairs_of(
    *prefixes: str, words: tuple[tuple[str, str], ...] = (("sleeps", "sleep"), ("runs", "run"))
) -> PairSet:
    """Cues at different places, so that sentences have different numbers of positions before the edit."""
    found = [
        MinimalPair(prefix, min(i, len(prefix.split()) - 1), verb, LABELS[i % 2], group=f"g{i % 3}")
        for i, prefix in enumerate(prefixes)
        for verb in words
    ]
    return PairSet("small", LABELS, tuple(found))


def small_problem(steps: Steps) -> Problem:
    return Problem(small_model(), pairs_of(*PREFIXES), steps=steps)


def draw(problem: Problem, runs: int = 2, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shape = (runs, 2, len(problem.space))
    return (torch.rand(shape, generator=generator) < 0.4).float(), torch.rand(
        shape, generator=generator
    ) * 2 - 1


# -- the masked run --


@BOTH_STEPS
def test_an_empty_mask_changes_nothing(steps):
    problem = small_problem(steps)
    mask, values = draw(problem)
    outcome = problem.run(torch.zeros_like(mask), values)
    assert torch.allclose(outcome.log_ratio, problem.clean_log_ratio.expand(2, -1), atol=1e-5)
    assert not outcome.flipped().any()
    assert problem.untouched.at(outcome.states).abs().max() < 1e-5


@BOTH_STEPS
def test_the_log_ratio_is_that_of_the_full_softmax(steps):
    problem = small_problem(steps)
    mask, values = draw(problem)
    found = problem.run(mask, values).log_ratio
    for e, pair in enumerate(problem.pairs):
        to = int(problem.direction[e])
        ids = problem.model.encode(pair.prefix).ids
        tree = PrefixTree.build([ids], [pair.cue], [to], steps)
        states = problem.model.states(problem.model.prepare(tree), MaskedEdit(problem.space, mask, values))
        p = problem.model.readout(states[-1]).softmax(-1)
        d, t = (problem.model.tokens_of(pair.words[i])[0] for i in (1 - to, to))
        assert torch.allclose(found[:, e], (p[:, d] / p[:, t]).log(), atol=1e-4)


@BOTH_STEPS
def test_the_untouched_states_are_the_same_kept_or_computed_again(steps, monkeypatch):
    model, pairs, chosen = small_model(), pairs_of(*PREFIXES), np.array([7, 2, 3])
    kept = Problem(model, pairs, steps=steps)
    assert kept.examples.untouched is not None
    monkeypatch.setattr("pivotal.problem.examples._MOST_BYTES", 0)
    again = Problem(model, pairs, steps=steps)
    assert again.examples.untouched is None
    for one, other in (
        (kept, again),
        (kept.restrict(chosen), again.restrict(chosen)),
        (kept.at_last_step(), again.at_last_step()),
    ):
        torch.testing.assert_close(one.tensors.clean, other.tensors.clean)


def test_a_batch_reads_the_untouched_states_without_running_the_model(monkeypatch):
    problem = small_problem("every")
    runs: list[object] = []
    states = type(problem.model).states
    monkeypatch.setattr(type(problem.model), "states", lambda *given: runs.append(given) or states(*given))
    assert len(problem.batches(3)[0].tensors.clean) == problem.batches(3)[0].tree.n_live
    assert not runs


def test_direction_is_what_the_model_does_not_prefer_whatever_grammar_says():
    problem = small_problem("every")
    assert set(problem.direction.tolist()) == {0, 1}
    clean = problem.clean_log_ratio
    assert (clean > 0).all()  # d is preferred by definition
    wrong = [replace(p, label=LABELS[1 - LABELS.index(p.label)]) for p in problem.pairs]
    mislabelled = problem.on(PairSet("wrong", LABELS, tuple(wrong)))
    assert (mislabelled.direction == problem.direction).all()
    assert mislabelled.clean_accuracy == pytest.approx(1 - problem.clean_accuracy)
    swapped = [replace(p, words=(p.words[1], p.words[0])) for p in problem.pairs]
    turned = problem.on(PairSet("turned", LABELS, tuple(swapped)))
    assert (turned.direction == 1 - problem.direction).all()
    assert torch.allclose(turned.clean_log_ratio, clean, atol=1e-6)


def test_clean_accuracy_counts_labelled_pairs_only():
    problem = Problem(plant().model, load_phenomenon("planted"))
    assert problem.clean_accuracy == 1.0
    none = PairSet("x", LABELS, tuple(replace(p, label="") for p in problem.pairs[:6]))
    assert problem.on(none).clean_accuracy is None


# -- what cannot be asked --


def test_words_outside_the_vocabulary_are_counted_and_listed():
    pairs = pairs_of(
        "The cat", "The wug near the dog", "The dax", words=(("sleeps", "sleep"), ("purrs", "purr"))
    )
    problem = Problem(small_model(), pairs)
    assert [pair.prefix for pair in problem.pairs] == ["The cat"]
    assert problem.rejected.total == 5
    assert problem.rejected.reasons["outside the vocabulary: wug, purrs"] == 1
    assert told_reasons(problem.rejected.reasons, 1) == "outside the vocabulary: purrs (3) and 2 more"


def test_nothing_left_to_ask_is_an_error():
    with pytest.raises(PivotalError, match=r"small cannot score any of the 2 pairs: outside .*wug.*\(2\)"):
        Problem(small_model(), pairs_of("The wug"))


@pytest.mark.parametrize("deaf", ["to all", "to hidden.1"])
def test_an_edit_that_reaches_no_site_is_an_error(deaf):
    class Deaf(RecurrentLM):
        def states(self, prepared: Any, edit: Any = None) -> Tensor:
            def heard(site: str, spans: Any, h: Tensor) -> Tensor:
                return h if site in deaf else edit(site, spans, h)

            return super().states(prepared, None if deaf == "to all" or edit is None else heard)

    problem = small_problem("every")
    problem.model.__class__ = Deaf
    said = r"edit never reached .*hidden.1"
    with pytest.raises(PivotalError, match=said):
        problem.run(*draw(problem))


# -- KL --


def naive_kl(problem: Problem, mask: Tensor, values: Tensor) -> tuple[Tensor, Tensor, dict[int, Tensor]]:
    """KL(untouched || edited) over all positions, over those from the edit on, and by position of each sentence."""
    model, overall, after = problem.model, [], []
    by_node: dict[int, Tensor] = {}
    for e, pair in enumerate(problem.pairs):
        ids, to = model.encode(pair.prefix).ids, int(problem.direction[e])
        each = [torch.zeros(len(mask))]  # the first word's prediction: nothing has been read, nothing edited
        node = int(problem.tree.leaf[e])
        for n in range(len(ids), 0, -1):
            if problem.steps == "single" and n <= pair.cue:
                each.append(torch.zeros(len(mask)))
                continue
            edited = PrefixTree.build([ids[:n]], [pair.cue], [to], problem.steps)
            plain = PrefixTree.build([ids[:n]])
            states = model.states(model.prepare(edited), MaskedEdit(problem.space, mask, values))[-1]
            log_q = model.readout(states).log_softmax(-1)
            log_p = model.readout(model.states(model.prepare(plain))[-1, 0]).log_softmax(-1)
            kl = (log_p.exp() * (log_p - log_q)).sum(-1)
            each.append(kl)
            by_node[int(problem.tree.live_row[node])] = kl
            node = int(problem.tree.parent[node])
        overall.append(torch.stack(each).mean(0))
        first = pair.cue if problem.steps == "single" else 0
        after.append(torch.stack(each[1 : 1 + len(ids) - first]).mean(0))
    return torch.stack(overall).mean(0), torch.stack(after).mean(0), by_node


@BOTH_STEPS
def test_kl_is_the_mean_over_sentences_and_positions(steps):
    problem = small_problem(steps)
    mask, values = draw(problem)
    overall, after, by_node = naive_kl(problem, mask, values)
    states = problem.run(mask, values).states
    each = problem.untouched.at(states)
    assert each.shape == (problem.tree.n_live, 2) and overall.min() > 1e-3
    for row, kl in by_node.items():
        assert torch.allclose(each[row], kl, atol=1e-5)
    assert torch.allclose(problem.positions.weight @ each, overall, atol=1e-5)
    assert torch.allclose(problem.untouched.mean(states), overall, atol=1e-5)
    assert torch.allclose(problem.positions.after_edit @ each, after, atol=1e-5)
    assert problem.positions.after_edit.sum() == pytest.approx(1)
    assert problem.positions.weight.sum() == pytest.approx(problem.positions.live_share)
    assert problem.positions.live_share < 1
    some = torch.tensor([3, 0, 3])
    assert torch.allclose(problem.untouched.at(states, some), each[some], atol=1e-6)


def test_kl_does_not_depend_on_how_it_is_cut_into_chunks(monkeypatch):
    problem = small_problem("every")
    states = problem.run(*draw(problem)).states
    whole = problem.untouched.at(states)
    monkeypatch.setattr("pivotal.problem.divergence._ROWS", 1)
    assert torch.allclose(problem.untouched.at(states), whole, atol=1e-6)


def test_positions_are_drawn_as_often_as_they_weigh():
    problem = small_problem("single")
    drawn = problem.positions.draw(50_000, torch.Generator().manual_seed(0))
    shares = torch.bincount(drawn, minlength=problem.tree.n_live) / 50_000
    assert torch.allclose(shares * problem.positions.live_share, problem.positions.weight, atol=0.01)


# -- work, and parts of a problem --


def test_work_counts_node_evaluations():
    problem = small_problem("single")
    mask, values = draw(problem, runs=3)
    problem.run(mask, values)
    nodes = 3 * problem.tree.n_live
    assert (problem.work.forward, problem.work.backward) == (nodes, 0)
    problem.run(mask, values.requires_grad_())
    assert (problem.work.forward, problem.work.backward) == (2 * nodes, nodes)
    with torch.no_grad():
        problem.run(mask, values)
    assert (problem.work.forward, problem.work.backward) == (3 * nodes, nodes)
    part = problem.restrict([0])
    part.run(mask, values.detach())
    assert problem.work.forward == 3 * nodes + 3 * part.tree.n_live
    assert problem.on(problem.pairs).work.forward == 0


@BOTH_STEPS
def test_a_part_gives_what_the_whole_gives(steps):
    problem = small_problem(steps)
    mask, values = draw(problem)
    chosen = [7, 2, 3, 10]
    part = problem.restrict(chosen)
    assert [p.prefix for p in part.pairs] == [problem.pairs[i].prefix for i in chosen]
    whole = problem.run(mask, values).log_ratio
    assert torch.allclose(part.run(mask, values).log_ratio, whole[:, chosen], atol=1e-6)
    assert torch.allclose(part.clean_log_ratio, problem.clean_log_ratio[chosen], atol=1e-6)
    _, _, by_node = naive_kl(part, mask, values)
    each = part.untouched.at(part.run(mask, values).states)
    assert all(torch.allclose(each[row], kl, atol=1e-5) for row, kl in by_node.items())


@pytest.mark.parametrize("prefixes", [0, 1, 2, 4, 100])
def test_batches_partition_the_examples_by_prefix(prefixes):
    problem = small_problem("every")
    batches = problem.batches(prefixes, seed=1)
    distinct = len(np.unique(problem.tree.leaf))
    assert len(batches) == (max(1, round(distinct / prefixes)) if prefixes else 1)
    content = [(p.prefix, p.words) for batch in batches for p in batch.pairs]
    assert sorted(content) == sorted((p.prefix, p.words) for p in problem.pairs)
    assert problem.batches(prefixes, seed=1) is batches
    assert sum(len(np.unique(batch.tree.leaf)) for batch in batches) == distinct


def test_a_sample_has_all_the_pairs_of_its_prefixes():
    problem = Problem(plant().model, load_phenomenon("planted"))
    some = problem.sample(10, seed=4)
    prefixes = {pair.prefix for pair in some.pairs}
    assert len(prefixes) == 10
    assert len(some) == sum(pair.prefix in prefixes for pair in problem.pairs)
    assert problem.sample(10, seed=4) is some, "with what the untouched model does on it"
    assert {pair.prefix for pair in problem.sample(10, seed=5).pairs} != prefixes
    assert problem.sample(100_000) is problem


def test_a_tie_is_not_a_preference():
    """A model that says nothing would otherwise be right about the pairs of the first label."""
    problem = Problem(small_model(("sleeps", "sleep")), pairs_of(*PREFIXES))
    assert len(problem) == len(PREFIXES) and {pair.words for pair in problem.pairs} == {("runs", "run")}
    assert list(problem.rejected.reasons.values()) == [len(PREFIXES)]
    assert "no preference" in problem.rejected.describe()
    assert (problem.clean_log_ratio > 0).all()


def test_a_model_without_preferences_is_refused():
    with pytest.raises(PivotalError, match=r"small cannot score any of the 12 pairs: no preference"):
        Problem(small_model(("sleeps", "sleep", "runs", "run")), pairs_of(*PREFIXES))


# -- KL between two next-word distributions --


def test_kl_of_large_logits_over_a_large_vocabulary_is_exact():
    """As SmolLM2 has them: around ten, up to thirty, 49,152 of them."""
    noise = torch.Generator().manual_seed(0)
    untouched = 10 + 4 * torch.randn(6, 49_152, generator=noise)
    edited = untouched[:, None] + 0.1 * torch.randn(6, 3, 49_152, generator=noise)
    edited[:, 0] = untouched
    log_p, log_q = (logits.double().log_softmax(-1) for logits in (untouched[:, None], edited))
    exact = (log_p.exp() * (log_p - log_q)).sum(-1)
    assert float(exact[:, 1:].min()) > 0.001
    torch.testing.assert_close(divergence(untouched, edited).double(), exact, atol=2e-5, rtol=0)


def test_its_gradient_is_that_of_the_numbers():
    noise = torch.Generator().manual_seed(0)
    untouched = torch.randn(3, 7, generator=noise, dtype=torch.float64)
    edited = torch.randn(3, 2, 7, generator=noise, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda logits: divergence(untouched, logits), edited)


def test_it_leaves_the_logits_as_they_are():
    """They are computed in place where no gradient is wanted."""
    noise = torch.Generator().manual_seed(0)
    untouched, edited = torch.randn(3, 7, generator=noise), torch.randn(3, 2, 7, generator=noise)
    kept = untouched.clone(), edited.clone()
    found = divergence(untouched, edited)
    assert torch.equal(untouched, kept[0]) and torch.equal(edited, kept[1])
    torch.testing.assert_close(divergence(untouched, edited.requires_grad_()), found)
