"""One seed in training: the recipe of 2017 is that of 2017, padding changes nothing, and the loss is torch's."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from pivotal.lm import cross_entropy as fused
from pivotal.lm.cross_entropy import cross_entropy, plain_softmax_gradient_
from pivotal.lm.learner import SeedLearner, Stream, fold, stream_loss
from pivotal.lm.network import GATES, Network
from pivotal.lm.recipes import settings_of
from pivotal.models.replay import Replay, Unrecordable

WORDS, EOS = 50, 1
CPU = torch.device("cpu")
SMALL = {"hidden": 24, "embedding": 20, "batch": 8, "bptt": 7, "precision": "fp32"}


@pytest.fixture(scope="module")
def ids() -> np.ndarray:
    found = np.random.default_rng(0).integers(2, WORDS, 1500).astype(np.int32)
    found[::20] = found[-1] = EOS
    return found


def learner(
    ids: np.ndarray, seed: int = 0, recipe: str = "fast", device: torch.device = CPU, **given: Any
) -> SeedLearner:
    settings = settings_of(recipe, {**SMALL, **given})
    return SeedLearner(settings, WORDS, Stream.of(ids, EOS, device), seed, device)


class Example:
    """The word-level example of PyTorch as it was in 2017, written down once more."""

    def __init__(self, weights: dict[str, torch.Tensor], cell: str) -> None:
        self.encoder, self.decoder = nn.Embedding(WORDS, 20), nn.Linear(24, WORDS)
        self.rnn = {"lstm": nn.LSTM, "gru": nn.GRU}[cell](20, 24, 2)
        for module, prefix in ((self.encoder, "encoder"), (self.decoder, "decoder"), (self.rnn, "rnn")):
            module.load_state_dict(
                {k.removeprefix(f"{prefix}."): v for k, v in weights.items() if k.startswith(f"{prefix}.")}
            )

    def parameters(self) -> Iterator[nn.Parameter]:
        for module in (self.encoder, self.decoder, self.rnn):
            yield from module.parameters()

    def epoch(self, ids: np.ndarray, *, rate: float, clip: float) -> None:
        data = torch.from_numpy(ids).long()
        data = data[: len(data) // 8 * 8].view(8, -1).t().contiguous()
        state = None
        for i in range(0, len(data) - 1, 7):
            length = min(7, len(data) - 1 - i)
            outputs, state = self.rnn(self.encoder(data[i : i + length]), state)
            state = tuple(s.detach() for s in state) if isinstance(state, tuple) else state.detach()
            logits = self.decoder(outputs).view(-1, WORDS)
            for parameter in self.parameters():
                parameter.grad = None
            functional.cross_entropy(logits, data[i + 1 : i + 1 + length].view(-1)).backward()
            nn.utils.clip_grad_norm_(self.parameters(), clip)
            for parameter in self.parameters():
                parameter.data.add_(parameter.grad, alpha=-rate)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_the_recipe_gulordava_is_the_example_of_2017(ids, cell):
    ids = ids[:420]  # a rate of 20 soon turns differences of rounding into others
    ours = learner(ids, recipe="gulordava", dropout=0.0, cell=cell)
    example = Example(ours.network.weights(), cell)
    example.epoch(ids, rate=20.0, clip=0.25)
    while not ours.epoch_done:
        ours.step(20.0)
    theirs = {f"rnn.{name}": weight for name, weight in example.rnn.state_dict().items()}
    theirs |= {"encoder.weight": example.encoder.weight.data, "decoder.weight": example.decoder.weight.data}
    found = ours.network.weights()
    for name, weight in theirs.items():
        torch.testing.assert_close(found[name], weight, rtol=0, atol=2e-5)
    before = learner(ids, recipe="gulordava", dropout=0.0, cell=cell).network.weights()
    assert (found["decoder.weight"] - before["decoder.weight"]).abs().max() > 0.1


def test_a_plateau_divides_the_rate_by_four_and_keeps_the_best(ids):
    found = learner(ids, recipe="gulordava")
    held = torch.from_numpy(ids[:600])
    first = found.validate(held)
    best = found.network.weights()
    assert found.plateau_rate == 20.0
    with torch.no_grad():
        found.network.bias.add_(torch.randn(WORDS))
    assert found.validate(held) > first
    assert found.plateau_rate == 5.0
    found.take_best()
    assert all(torch.equal(best[name], weight) for name, weight in found.network.weights().items())


@pytest.mark.parametrize("cell", sorted(GATES))
@pytest.mark.parametrize("tied", [False, True])
def test_padding_changes_nothing_and_stays_zero(ids, cell, tied):
    def make(precision: str) -> Network:
        sizes = {"embedding": 21, "hidden": 21, "layers": 2, "dropout": 0.0, "tied": tied, "cell": cell}
        made = Network(settings_of("fast", {**sizes, "precision": precision}), WORDS)
        made.initialise(3)
        return made.place(CPU)

    plain, padded = make("fp32"), make("fp16")
    assert padded.encoder.shape == (64, 32)
    assert all(torch.equal(plain.weights()[name], weight) for name, weight in padded.weights().items())
    held = torch.from_numpy(ids[:600])
    padded.refresh()
    assert stream_loss(padded, held) == pytest.approx(stream_loss(plain, held), abs=5e-3)
    batch = torch.from_numpy(ids[:60]).view(10, 6)
    loss, _ = padded.loss(batch[:-1], batch[1:], padded.start(6))
    loss.backward()
    padded.collect()
    kept = {name: padded._without_padding(name, weight.grad) for name, weight in padded._named().items()}
    for name, weight in padded._named().items():
        assert weight.grad is not None and kept[name].any()
        assert int(weight.grad.count_nonzero()) == int(kept[name].count_nonzero()), name


def test_a_learner_that_was_saved_on_a_gpu_goes_on_on_a_cpu(ids):
    """With random numbers of its own: those of a GPU mean nothing to a CPU."""
    first, second = learner(ids), learner(ids)
    first.step(1e-2)
    saved = {**first.state_dict(), "random": torch.zeros(16, dtype=torch.uint8)}
    saved["optimizer"]["param_groups"][0]["capturable"] = True  # which a recording needs
    second.load_state_dict(saved)
    assert not second._optimizer.param_groups[0]["capturable"]
    second.step(1e-2)
    assert math.isfinite(second.take_loss()) and second.row == 14


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("recipe", ["fast", "gulordava"])
def test_an_update_computes_the_same_replayed_or_not_and_beside_another_seed(ids, recipe):
    device, found = torch.device("cuda"), []
    for seeds, replayed in (((1,), True), ((1,), False), ((0, 1), True)):
        learners = [learner(ids, seed, recipe, device, precision="fp16", dropout=0.3) for seed in seeds]
        for _ in range(12):
            for one in learners:
                one._replay = one._replay if replayed else Replay(None)
                one.step(1e-2)
        found.append(learners[-1].weights())
    for name, weight in found[0].items():
        torch.testing.assert_close(found[1][name], weight, rtol=0, atol=1e-5)
        torch.testing.assert_close(found[2][name], weight, rtol=0, atol=1e-5)


def test_an_update_that_cannot_be_recorded_is_done_in_the_plain_way(ids):
    plain, refused = learner(ids), learner(ids)
    update, calls = refused._update, []

    def refusing(rows: int | None = None) -> None:
        calls.append(rows)
        if len(calls) == 2:
            raise Unrecordable("stream is capturing")
        update(rows)

    refused._update = refusing
    with pytest.warns(UserWarning, match=r"cannot be replayed.*slower.*\(stream is capturing\)"):
        for one in (plain, refused):
            for _ in range(3):
                one.step(0.01)
    assert len(calls) == 4
    torch.testing.assert_close(list(refused.network.parameters()), list(plain.network.parameters()))


def test_an_update_that_overflows_is_left_out(ids):
    found = learner(ids)
    found._scale._dynamic = True
    scale = float(found._scale.value)
    with torch.no_grad():
        found.network.bias[3] = torch.nan
    before = found.network.weights()["encoder.weight"]
    found.step(1e-2)
    assert torch.equal(found.network.weights()["encoder.weight"], before)
    assert float(found._scale.value) == max(scale / 2, 1.0)


def test_sentences_are_shuffled_in_a_new_order_in_every_epoch(ids):
    stream = Stream.of(ids, EOS, CPU)

    def read(columns: torch.Tensor) -> list[tuple[int, ...]]:
        text = columns.t().flatten().tolist()
        parts = np.split(np.array(text), np.flatnonzero(np.array(text) == EOS) + 1)
        return [tuple(part) for part in parts if len(part)]

    first, again, second = (read(stream.shuffled_columns(1, 0, epoch)) for epoch in (0, 0, 1))
    assert first == again != second
    assert sorted(first) == sorted(second) == sorted(read(fold(stream.ids, 1)))


def test_half_precision_learns_what_full_precision_learns(ids):
    full, half = (learner(ids, precision=p, optimizer="sgd", dropout=0.0) for p in ("fp32", "fp16"))
    start = full.network.weights()
    for _ in range(5):
        full.step(1.0)
        half.step(1.0)
    found = half.network.weights()
    for name, weight in full.network.weights().items():
        moved = float((weight - start[name]).norm())
        assert float((found[name] - weight).norm()) < 0.03 * moved, name
    assert half.take_loss() == pytest.approx(full.take_loss(), rel=1e-3)


CLASSES, PADDED = 11, 16


def case(tokens: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    torch.manual_seed(tokens)
    hidden, weight = torch.randn(tokens, 5, dtype=dtype), torch.randn(PADDED, 5, dtype=dtype)
    return hidden, weight, torch.randn(PADDED, dtype=dtype), torch.randint(0, CLASSES, (tokens,)).int()


@pytest.fixture(params=[1, 3, 10**6])
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Rows in a chunk: one, a few with a rest, all."""
    monkeypatch.setitem(fused.CHUNK_BYTES, "cpu", request.param * PADDED * 8)
    return int(request.param)


@pytest.mark.parametrize("tokens", [1, 7])
def test_value_and_gradients_are_those_of_torch(chunk, tokens):
    *parts, targets = case(tokens)
    ours = [part.clone().requires_grad_() for part in parts]
    theirs = [part.clone().requires_grad_() for part in parts]
    loss = cross_entropy(*ours, targets, CLASSES)
    logits = functional.linear(theirs[0], theirs[1], theirs[2])[:, :CLASSES]
    expected = functional.cross_entropy(logits, targets.long())
    torch.testing.assert_close(loss, expected)
    (3 * loss).backward()
    (3 * expected).backward()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad)
    with torch.no_grad():
        torch.testing.assert_close(cross_entropy(*ours, targets, CLASSES), expected)


def test_half_precision_does_not_overflow():
    """exp(12) is more than float16 can hold; a logit of 200 is not unusual while learning."""
    hidden, weight, bias, targets = case(6, torch.float32)
    hidden *= 60
    exact = cross_entropy(hidden, weight, bias, targets, CLASSES)
    half = hidden.half().requires_grad_()
    loss = cross_entropy(half, weight, bias, targets, CLASSES)
    loss.backward()
    torch.testing.assert_close(loss.detach(), exact, rtol=5e-3, atol=0.05)
    assert half.grad is not None and bool(half.grad.isfinite().all())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("rows", [50_048, 4096, 70])
def test_the_kernel_does_what_the_plain_version_does(dtype, rows):
    kernel = pytest.importorskip("pivotal.lm.cross_entropy_kernel")
    torch.manual_seed(0)
    words = rows - 3
    exact = torch.randn(65, rows, device="cuda") * 8
    ours, theirs = exact.to(dtype), exact.to(dtype).double()
    targets = torch.randint(0, words, (65,), device="cuda").int()
    losses = kernel.softmax_gradient_(ours, targets, words)
    expected = plain_softmax_gradient_(theirs, targets, words)
    torch.testing.assert_close(losses.double(), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=1e-2 if dtype != torch.float32 else 1e-5)
    assert not ours[:, words:].any()
