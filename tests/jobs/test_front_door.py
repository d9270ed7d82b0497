"""`pivotal.find` takes what people have: a loaded model with its tokenizer or words, and a question in any form."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from tests.models.tiny import random_model, tokenizer
from torch import nn
from transformers import T5Config, T5ForConditionalGeneration

import pivotal
from pivotal import PivotalError
from pivotal.models.base import checked
from pivotal.models.planted import plant
from pivotal.questions.phenomena.planted import PlantedAgreement
from pivotal.report.page import write_report
from pivotal.searches import Attribution

LABELS = ("singular", "plural")
QUICK: dict[str, Any] = {"controls": 0, "evidence": "none", "progress": False}


class Recurrent(nn.Module):
    """A language model as people write it: an embedding, a recurrent layer and an output layer."""

    def __init__(self, **more: nn.Module) -> None:
        super().__init__()
        for name, part in more.items():
            self.add_module(name, part)
        planted = plant()
        weights = planted.model._weights
        self.words = list(planted.model.words)
        self.embedding = nn.Embedding(len(self.words), 64)
        self.rnn = nn.RNN(64, 64)
        self.output = nn.Linear(64, len(self.words))
        self.units = {str(unit) for unit in planted.units}
        with torch.no_grad():
            self.embedding.weight.copy_(weights["encoder.weight"])
            self.output.weight.copy_(weights["decoder.weight"])
            self.output.bias.copy_(weights["decoder.bias"] if "decoder.bias" in weights else torch.zeros(1))
            for name, parameter in self.rnn.named_parameters():
                parameter.copy_(weights[f"rnn.{name}"] if f"rnn.{name}" in weights else torch.zeros(1))


@pytest.fixture(scope="module")
def module() -> Recurrent:
    return Recurrent()


@pytest.mark.parametrize("form", ["set", "rows", "file"])
def test_a_module_with_its_words_and_a_question_in_any_form(form, module, tmp_path, monkeypatch):
    pairs = PlantedAgreement().pairs()
    rows = [
        {"prefix": p.prefix, "cue": p.cue_word, "label": p.label}
        | {"words": dict(zip(LABELS, p.words, strict=True))}
        for p in pairs
    ]
    pairs.save(tmp_path / "pairs.jsonl")
    question = {"set": pairs, "rows": rows, "file": tmp_path / "pairs.jsonl"}[form]
    search = Attribution(max_units=3, refit=20)
    monkeypatch.chdir(tmp_path)
    finding = pivotal.find(module, module.words, question, search=search, out="run", **QUICK)
    assert {str(unit) for unit in finding.folder.intervention().units} == module.units
    assert finding.summary.flip_accuracy == 1
    page = write_report(finding.folder).read_text(encoding="utf-8")
    assert "load_model(module, tokenizer)  # what you gave" in page
    assert "certify run <span>--model</span> PATH" in page


def test_words_may_map_to_their_ids(module):
    ids = {word: i for i, word in reversed(list(enumerate(module.words)))}
    assert pivotal.load_model(module, ids, name="mine").vocabulary.words == tuple(module.words)


def test_a_module_in_memory_is_copied():
    """What happens to it afterwards, such as more training, does not change the model."""
    module = Recurrent()
    model = pivotal.load_model(module, module.words)
    before = model.next_words("The noun0a")
    for weight in module.parameters():
        weight.data.zero_()
    assert model.next_words("The noun0a") == before


def test_a_module_computes_where_it_is_and_in_its_own_format_unless_told(module):
    double = Recurrent().double()
    ids = [[2, 10, 3]]
    for given, dtype in ((None, torch.float64), ("float32", torch.float32)):
        model = pivotal.load_model(double, module.words, dtype=given, device="cpu")
        assert model.dtype == model.next_logits(ids).dtype == dtype
    with pytest.raises(PivotalError, match="float16 needs a GPU"):
        pivotal.load_model(double, module.words, dtype="float16")
    half = pivotal.load_model(Recurrent().bfloat16(), module.words)
    assert half.dtype == torch.float32, "a CPU computes in full precision"


@pytest.mark.parametrize("first", [True, False])
def test_a_module_that_does_more_than_its_parts_is_refused(first):
    def forward(ids, between=lambda states: states, after=lambda logits: logits):
        states = module.rnn(module.embedding(ids if first else ids.T))[0]
        logits = after(module.output(between(states)))
        return (logits if first else logits.transpose(0, 1)), states

    module = Recurrent()
    module.rnn.batch_first = first
    for allowed in ({}, {"after": lambda logits: logits.softmax(-1)}, {"after": lambda _: 1 / 0}):
        module.forward = partial(forward, **allowed)
        assert pivotal.load_model(module, module.words).hidden == 64
    for more in ({"between": torch.relu}, {"after": torch.tanh}):
        module.forward = partial(forward, **more)
        with pytest.raises(PivotalError, match="such as an activation between them"):
            pivotal.load_model(module, module.words)


def test_a_transformer_in_memory_is_not_moved():
    given = random_model("llama"), tokenizer()
    model = pivotal.load_model(*given, device="cpu", dtype="float32", batch_nodes=512)
    assert (model.batch_nodes, model.dtype) == (512, torch.float32)
    assert pivotal.load_model(model, device="cpu") is model
    for other in ({"priming": "The"}, {"device": "cuda"}, {"name": "mine"}, {"tokenizer": given[1]}):
        with pytest.raises(PivotalError, match="is loaded already and keeps its settings"):
            pivotal.load_model(model, **other)
    with pytest.raises(PivotalError, match="planted has its own words and name"):
        pivotal.load_model("planted", ["a"])
    with pytest.raises(PivotalError, match=r"stays on cpu in torch\.float32, but cpu and torch\.float64"):
        pivotal.load_model(*given, device="cpu", dtype="float64")


@pytest.mark.parametrize(
    ("model", "tokenizer", "rule"),
    [
        (nn.Linear(2, 2), ["a"], "has one nn.Embedding"),
        (Recurrent(), None, "needs its words"),
        (Recurrent(), list(range(27)), "needs its words"),
        (Recurrent(), {"a": 1, "b": 2}, r"ids of 2 words must be 0 to 1, not \[1, 2\]"),
        (Recurrent(), {"a": 0, "b": "x"}, "must be 0 to 1"),
        (Recurrent(), ["a"], r"embedding has 49 rows, but 1 words were given"),
        (["a"], Recurrent(), r"a path or a torch module, but this is a list"),
        (random_model("llama").model, tokenizer(), r"unlike LlamaModel\. Load an AutoModelForCausalLM"),
        (
            T5ForConditionalGeneration(T5Config(vocab_size=14, d_model=16, num_layers=1)),
            tokenizer(),
            "unlike T5ForConditionalGeneration",
        ),
        (random_model("llama"), type(tokenizer()), "needs its tokenizer, but it came with <class"),
        (Recurrent(norm=nn.LayerNorm(64)), ["a"], r"nothing else with weights, but .* has norm\.weight"),
        (3, None, "a path or a torch module"),
        ("a" * 300, None, "A model is a name"),
        ("hf:gpt2", None, "not 'hf:gpt2'. The organisation is missing"),
    ],
)
def test_what_is_not_a_model_is_refused(model, tokenizer, rule):
    with pytest.raises(PivotalError, match=rule.replace("has one", "have one")):
        pivotal.load_model(model, tokenizer)


def test_other_questions_are_asked_with_the_units_set():
    planted = plant()
    model, pairs = planted.model, PlantedAgreement().pairs()
    found = Attribution(max_units=3, refit=20).solve(pivotal.Problem(model, pairs.sample(200))).best
    moved = pivotal.transfer(found, model, "planted")
    assert "planted: 100.0% [" in repr(moved) and "preferences flip; 100.0% [" in repr(moved)
    own = moved.rows[0].effect
    assert own.flipped is not None and own.flipped.value == 1
    # The same pairs under other names: mapped they flip, otherwise only accuracy is told.
    other = replace(pairs, labels=("one", "many"), pairs=tuple(replace(p, label="") for p in pairs[:60]))
    mapped = pivotal.transfer(found, model, other, labels={"one": "singular", "many": "plural"}).rows[0]
    assert mapped.effect.flipped is not None
    unmapped = pivotal.transfer(found, model, other).rows[0].effect
    assert unmapped.flipped is None
    with pytest.raises(PivotalError, match="belongs to the model"):
        pivotal.transfer(found, pivotal.load_model("wiki-lstm"), "planted")


def test_a_question_may_hold_a_model_and_pairs_and_check_takes_what_find_takes(tmp_path):
    model, pairs = plant().model, PlantedAgreement().pairs()
    question = pivotal.Question(model, pairs)
    of_search = {"search": "attribution", "max_units": 3, "refit": 20}
    finding = pivotal.find(question, **of_search, out=tmp_path / "run", **QUICK)
    assert finding.folder.settings["search"]["refit"] == 20
    assert finding.summary.flip_accuracy == 1 and finding.folder.settings["model"] == "planted"
    lists = {label: [p.prefix for p in pairs[:200] if p.label == label] for label in LABELS}
    assert "Prompts are paired line by line" in repr(pivotal.check(model, lists))
    for asked in ((question,), (model, pairs), ("planted", pairs[:300]), ("planted", "planted")):
        report = pivotal.check(*asked, most=50)
        assert report.sampled == 50 and "prefers the expected word" in repr(report)
    assert pivotal.check("planted", "planted", most=50, test=np.int64(81), seed=np.int64(0)).test == 81
    assert pivotal.check(pivotal.Question("planted", test=pairs[:99], phenomenon="planted")).test == 99


PLANTED = ("planted", "planted")
SKIPPING = pivotal.Question(*PLANTED, skip_bad=True)
OWN_WORDS = "planted has its own words and name"


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: pivotal.find(pivotal.Question(), "number-agreement"), "A Question holds all settings"),
        (lambda: pivotal.find(*PLANTED, stepz="every"), r"no setting 'stepz'\. Did you mean 'steps'"),
        (lambda: pivotal.find(*PLANTED, max_unit=3), r"no setting 'max_unit'\. Did you mean 'max_units'\?"),
        (lambda: pivotal.find(*PLANTED, max_units="many"), "'max_units' of 'exchange' takes .*, not 'many'"),
        (lambda: pivotal.find(*PLANTED, max_ukl=1), r"no setting 'max_ukl'\. Did you mean 'max_kl'\?"),
        (lambda: pivotal.find(*PLANTED, search="greedy", beam=0), "beam must be 1 or more"),
        (lambda: pivotal.find(*PLANTED, runs="2"), "runs must be a whole number, 1 to 10,000, but it is '2'"),
        (lambda: pivotal.find(*PLANTED, controls="x"), "controls must be a whole number, 0 to 10,000"),
        (lambda: pivotal.check(*PLANTED, max_units=3), r"no setting 'max_units'\. Available: columns"),
        (lambda: pivotal.check(*PLANTED, most=-1), r"most must be a whole number, 0 or more, but it is -1\."),
        (lambda: plant().model.intervened("runs/a", "singular"), "finding.intervention, not 'runs/a'"),
        (lambda: plant().model.next_words("The man", k="a"), "k must be a whole number"),
        (lambda: pivotal.transfer("runs/a", plant().model, "planted"), "finding.intervention, not 'runs/a'"),
        (lambda: pivotal.evaluate("runs/a", None), r"is evaluated on a Problem, such as pivotal\.Problem"),
        (lambda: pivotal.certify("runs/a", "planted"), "is evaluated on a Problem, .* but this is 'planted'"),
        (lambda: pivotal.find("planted", {"prefix": ["The man"]}), "words for two labels"),
        (lambda: pivotal.find("planted", 3), r"pairs or rows, not int\."),
        (lambda: pivotal.find(*PLANTED, test=PlantedAgreement().pairs()[:0]), "score any of the 0 pairs"),
        (lambda: pivotal.check(SKIPPING), "--skip-bad is about .*, but planted has none"),
        (lambda: pivotal.check(*PLANTED, skip_bad=True), "--skip-bad is about .*, but planted has none"),
        (lambda: pivotal.check("planted", ["a"], "planted"), OWN_WORDS),
        (lambda: pivotal.check(*PLANTED, name="mine"), OWN_WORDS),
        (lambda: pivotal.check(pivotal.Question(*PLANTED), name="mine"), OWN_WORDS),
        (lambda: pivotal.check(*PLANTED, phenomenon="number-agreement"), OWN_WORDS),
        (lambda: plant().model.next_words(["The man"]), r"A prompt is one text, but this is a list\."),
        (lambda: pivotal.runs("nowhere"), r"nowhere: there is no such folder\."),
        (lambda: checked("wiki-lstm"), "A loaded model is needed, not .*load_model"),
        (lambda: checked(PlantedAgreement().pairs()), "model is needed, not .*load_model"),
    ],
)
def test_what_cannot_be_asked_is_refused(ask, said):
    with pytest.raises(PivotalError, match=said):
        ask()
