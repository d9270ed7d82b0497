"""Modules of one's own; the example is that of docs/add-a-model.md, a gated convolutional language model."""

from typing import Any

import pytest
import torch
from tests.models.tiny import PREFIXES, VOCABULARY, random_model, tokenizer
from tests.paths import code_of
from torch import Tensor, nn

from pivotal import PivotalError
from pivotal.models import ModuleLM
from pivotal.testing import check_model

WORDS = ["<eos>", "<unk>", *dict.fromkeys(" ".join(PREFIXES).split()), "runs", "run"]


WIDTH = 12
PAGE: dict[str, Any] = {}
exec(code_of("add-a-model")[0], PAGE)
GatedConvolution, GatedConvolutionalLM = PAGE["GatedConvolution"], PAGE["GatedConvolutionalLM"]


def convolutional(words: int = len(WORDS)) -> GatedConvolutionalLM:
    torch.manual_seed(0)
    module = GatedConvolutionalLM(words, WIDTH)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter *= 2
    return module


class _Transposed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2)


SITES = {"gate.0": "layers.0.gate", "gate.1": "layers.1.gate", "hidden.1": "layers.1"}


@pytest.mark.parametrize("priming", [None, "<eos>"])
def test_contract(priming):
    lm = ModuleLM("convolutional", convolutional(), WORDS, SITES, priming=priming)
    assert lm.vocabulary.is_priming(priming or "") and not lm.vocabulary.is_priming("no such word")
    assert [(site.name, site.width) for site in lm.sites] == [(name, WIDTH) for name in SITES]
    check_model(lm, PREFIXES)


@pytest.mark.parametrize("head", [True, False])
def test_a_module_in_half_precision(head):
    """Two logits decide a flip: they are computed in float32, whatever the module computes in."""
    module = convolutional() if head else Doubled()
    sites = SITES if head else {"gate.0": "inner.layers.0.gate"}
    check_model(ModuleLM("half", module.half(), WORDS, sites), PREFIXES, tolerance=2e-2)


def test_logits_are_the_module_s_own():
    module = convolutional()
    lm = ModuleLM("convolutional", module, {word: i for i, word in reversed([*enumerate(WORDS)])}, SITES)
    for text in PREFIXES:
        ids = lm.encode(text).ids
        torch.testing.assert_close(lm.next_logits([ids])[0], module(torch.tensor([ids]))[0, -1])


class Doubled(nn.Module):
    """Its logits are not the output of a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = convolutional()

    def forward(self, ids: Tensor) -> Tensor:
        return 2 * self.inner(ids)


def test_a_module_without_an_output_layer_that_can_be_seen():
    sites = {"gate.0": "inner.layers.0.gate", "last": "inner.output:input"}
    check_model(ModuleLM("doubled", Doubled(), WORDS, sites), PREFIXES)


class _ByName(GatedConvolution):
    def forward(self, x: Tensor | None = None) -> Tensor:
        assert x is not None
        return super().forward(x)


def test_a_site_may_be_an_input_that_is_given_by_its_name_and_have_a_name_with_dots():
    class Named(GatedConvolutionalLM):
        def forward(self, ids: Tensor) -> Tensor:
            x = self.embedding(ids).transpose(1, 2)
            for layer in self.layers:
                x = layer(x=x)
            return self.output(x.transpose(1, 2))

    module = Named(len(WORDS), WIDTH)
    module.layers = nn.ModuleList(_ByName(WIDTH, 5) for _ in range(2))
    lm = ModuleLM("named", module, WORDS, {f"own.in.{i}": f"layers.{i}:input" for i in range(2)})
    check_model(lm, PREFIXES)
    assert str(lm.unit_space("own.in")) == str(lm.unit_space("own.in.0-1")) == str(lm.unit_space())


def test_a_tokenizer_and_a_model_of_transformers():
    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = random_model("llama")

        def forward(self, ids: Tensor) -> Tensor:
            return self.model(input_ids=ids).logits

    sites = {"mlp.1": "model.model.layers.1.mlp.down_proj:input"}
    lm = ModuleLM("wrapped", Wrapped(), tokenizer(bos=True), sites)
    assert (lm.sites[0].width, lm.vocabulary_size) == (24, VOCABULARY)
    check_model(lm, PREFIXES)


def test_what_cannot_be_is_refused():
    module = convolutional()
    with pytest.raises(PivotalError, match=r"path of a module.*layers\.0\.gate"):
        ModuleLM("x", module, WORDS, {"gate.0": "layers.0.gates"})
    with pytest.raises(PivotalError, match="a vector per step"):
        ModuleLM("x", module, WORDS, {"conv.0": "layers.0.convolution:input"})
    with pytest.raises(PivotalError, match="at least one site"):
        ModuleLM("x", module, WORDS, {})
    with pytest.raises(PivotalError, match=r"need \d+ different words"):
        ModuleLM("x", module, WORDS[:-1], SITES)
    with pytest.raises(PivotalError, match=r"gave \(1, 12, 7\)"):
        ModuleLM("x", nn.Sequential(module.embedding, _Transposed()), WORDS, SITES)

    class LooksAhead(GatedConvolutionalLM):
        def forward(self, ids: Tensor) -> Tensor:
            return super().forward(ids.flip(1)).flip(1)

    with pytest.raises(PivotalError, match="Later words change the predictions"):
        ModuleLM("x", LooksAhead(len(WORDS)), WORDS, SITES)


class _Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(WORDS), 8)
        self.gru = nn.GRU(8, 8, batch_first=True)
        self.twice = nn.Linear(8, 8)
        self.output = nn.Linear(8, len(WORDS))

    def forward(self, ids: Tensor) -> Tensor:
        h, _ = self.gru(self.embedding(ids))
        return self.output(self.twice(self.twice(h)))


@pytest.mark.parametrize(
    "sites, said",
    [
        ({"h.0": "gru"}, r"must reach the next step, but gru \(h\.0\) is a torch\.nn\.GRU.*RecurrentLM"),
        ({"h.0": "twice"}, r"h\.0 \(twice\) ran 2 times"),
        ({"a.0": "embedding", "b.0": "embedding:output"}, r"two of a\.0, b\.0 are the same"),
    ],
)
def test_a_site_whose_edit_would_not_be_what_it_seems_is_refused(sites, said):
    with pytest.raises(PivotalError, match=said):
        ModuleLM("own", _Recurrent(), WORDS, sites)
