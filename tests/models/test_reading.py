"""Continuations from a model's own state are those that reading every text again gives, with and without an edit."""

import itertools
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from tests.models import small
from tests.models.tiny import FAMILIES, drawn, shared_lm, tiny_lm, tokenizer

from pivotal import PivotalError, load_model
from pivotal.models import LanguageModel, RecurrentLM
from pivotal.models.bases import Basis, stored_bases
from pivotal.models.edits import MaskedEdit
from pivotal.models.intervened import Applied, Rereading
from pivotal.units import Steps

WITHOUT_CACHE = {"mamba", "mamba2", "rwkv"}
"""Families whose state has another name. Their texts are read again after each token."""
WORDS = ["<eos>", "<unk>", "The", "doctor", "doctors", "near", "cars", "runs", "run"]


@cache
def recurrent(cell: str) -> RecurrentLM:
    return small.recurrent(WORDS, cell, 2)


def applied(model: LanguageModel, sites: str, steps: Steps | None) -> Applied:
    if steps is None:
        return Applied()
    edit = MaskedEdit.of(drawn(model, sites, steps), model.unit_space(sites))
    return Applied(edit, steps, direction=1, cue=1 if steps == "single" else -1)


def check_reading(model: LanguageModel, sites: str, steps: Steps | None) -> None:
    prompt, how = model.encode("The doctor near").ids, applied(model, sites, steps)
    found, expected = model.reading(prompt, 2, how), Rereading(model, prompt, 2, how)
    for tokens in (None, [4, 3], [5, 5], [2, 6]):
        if tokens is not None:
            found.read(torch.tensor(tokens))
            expected.read(torch.tensor(tokens))
        torch.testing.assert_close(found.states, expected.states, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("steps", [None, "every", "single"])
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
def test_recurrent_states_are_those_of_reading_again(cell, steps):
    for sites in ("all", "hidden.1"):
        check_reading(recurrent(cell), sites, steps)


@pytest.mark.parametrize(
    "family",
    [
        name if name in ("llama", "opt") else pytest.param(name, marks=pytest.mark.slow)
        for name in FAMILIES  # OPT flattens rows and steps in its MLPs
    ],
)
def test_states_of_transformers_are_those_of_reading_again(family):
    model = shared_lm(family)
    assert model._trunk.continues == (family not in WITHOUT_CACHE)
    for steps in (None, "every", "single"):
        check_reading(model, "all" if family not in WITHOUT_CACHE else "resid.1", steps)


def test_a_step_computes_one_token_of_each_text():
    model = shared_lm("llama")
    rows: list[tuple[int, ...]] = []
    handle = model.network.register_forward_pre_hook(
        lambda _, __, kwargs: rows.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    try:
        edited = model.intervened(drawn(model, "mlp"), "plural")
        edited.generate("The doctor near", words=1)  # tries the cache if no test has
        rows.clear()
        edited.generate("The doctor near", words=4, samples=3)
    finally:
        handle.remove()
    assert rows == [(1, 4), (3, 1), (3, 1), (3, 1)]


@pytest.mark.parametrize("steps", ["every", "single"])
def test_texts_are_those_of_reading_again(steps, monkeypatch):
    for model, sites in ((load_model("planted"), "all"), (shared_lm("gpt2"), "mlp")):
        prompt = "The noun0a near" if model.name == "planted" else "The doctor near"
        edited = model.intervened(drawn(model, sites, steps), "plural", cue=1)

        def texts(models: tuple[Any, ...] = (model, edited), prompt: str = prompt) -> list[object]:
            how = itertools.product(models, (0.0, 1.0))
            return [m.generate(prompt, words=5, samples=2, temperature=heat, seed=3) for m, heat in how]

        found = texts()
        with monkeypatch.context() as patch:
            patch.setattr(type(model), "reading", LanguageModel.reading)
            expected = texts()
        assert found == expected
        assert found[:2] != found[2:]


# -- transformers' own generate ---------------------------------------------------------------------------------------


def own(net: Any, texts: list[str], **settings: Any) -> list[list[int]]:
    """The new tokens of transformers' own `generate`, in a batch that is padded on the left."""
    made = tokenizer(bos=True)
    made.pad_token, made.padding_side = "<unk>", "left"
    batch = made(texts, return_tensors="pt", padding=True)
    kind = {"eos_token_id": None, "pad_token_id": 0, "max_new_tokens": 6, "do_sample": False, **settings}
    out = net.generate(batch["input_ids"], attention_mask=batch["attention_mask"], **kind)
    return out[:, batch["input_ids"].shape[1] :].tolist()


def greedy(edited: Any, prompt: str, cue: int | None) -> list[int]:
    """The tokens that our own logits choose, special tokens too."""
    text = list(edited.model.encode(prompt).ids)
    for _ in range(6):
        text.append(int(edited.next_logits([text], cue)[0].argmax()))
    return text[-6:]


PROMPTS = ["The doctor near cars quickly", "Some cars"]


@pytest.mark.parametrize("steps", ["every", "single"])
@pytest.mark.parametrize(
    "family",
    ["opt", *(pytest.param(name, marks=pytest.mark.slow) for name in ("gpt2", "llama", "gemma3", "bloom"))],
)
def test_transformers_own_generate_is_edited(family, steps):
    """Also in a batch whose texts differ in length. The text that the model reads first stays untouched."""
    model = shared_lm(family)
    edited = model.intervened(drawn(model, "mlp,head.1", steps), "plural", cue=0)
    cues = None if steps == "every" else [3, 1]
    expected = [greedy(edited, text, cue) for text, cue in zip(PROMPTS, cues or [None, None], strict=True)]
    untouched = own(model.network, PROMPTS)
    with edited.attached(cues) as net:
        assert own(net, PROMPTS) == own(net, PROMPTS, cache_implementation="static") == expected
        beams = own(net, PROMPTS, num_beams=3)
        torch.manual_seed(0)
        samples = own(net, PROMPTS, do_sample=True, num_return_sequences=4)
    assert len(beams) == 2 and len(samples) == 8
    assert own(model.network, PROMPTS) == untouched
    assert steps == "single" or untouched != expected


@pytest.mark.parametrize("steps", ["every", "single"])
def test_units_in_bases_are_attached(steps):
    model = shared_lm("llama")
    width = {site.name: site.coordinates for site in model.sites}
    draw = torch.Generator().manual_seed(0)
    turned = torch.linalg.qr(torch.randn(width["resid.0"], width["resid.0"], generator=draw))[0]
    encoder = torch.randn(width["mlp.1"], 40, generator=draw)
    bases = {
        "resid.0@pca": Basis.rotation("pca", turned),
        "mlp.1@sae": Basis("sae", encoder, encoder.T.contiguous(), torch.zeros(40), "topk", top_k=8),
    }
    there = model.in_bases(bases)
    found = drawn(there, "resid.0@pca,mlp.1@sae,mlp.2", steps)
    found = replace(found, bases=stored_bases(bases, found.units))
    cues = None if steps == "every" else [3, 1]
    for given in (model, there):
        edited = given.intervened(found, "plural", cue=0)
        expected = [greedy(edited, *one) for one in zip(PROMPTS, cues or [None, None], strict=True)]
        with edited.attached(cues) as net:
            assert own(net, PROMPTS) == expected
    assert expected != own(model.network, PROMPTS)


def test_nothing_else_runs_while_an_intervention_is_attached():
    model = tiny_lm("llama")
    edited = model.intervened(drawn(model, "mlp"), "plural")
    before = model.next_words("The doctor")
    with edited.attached():
        for ask in (lambda: model.next_words("The doctor"), lambda: edited.generate("The", words=1)):
            with pytest.raises(PivotalError, match="Leave the block of `attached`"):
                ask()
        with pytest.raises(PivotalError, match="Leave the block"), edited.attached():
            pass
        with pytest.raises(PivotalError, match="Leave the block"):
            model.writes([model.unit("mlp.1:0")])
    assert model.next_words("The doctor") == before
    assert model._trunk.continues, "what is tried at the first use waits for the end of the block"


def test_what_cannot_be_attached():
    model = shared_lm("llama")
    single = model.intervened(drawn(model, "mlp", "single"), "plural", cue=0)
    for cue in (None, -1, []):
        with pytest.raises(PivotalError, match="0-based position of the cue, or one per"):
            single.attached(cue)
    with (
        pytest.raises(PivotalError, match="one cue, or one for each of the 2 rows, not 3"),
        single.attached([0, 1, 2]) as net,
    ):
        own(net, PROMPTS)
    without = tokenizer()(PROMPTS[1], return_tensors="pt")
    with pytest.raises(PivotalError, match=r"begin with its tokens, \[1\]"), single.attached(1) as net:
        net(**without)
    with pytest.raises(PivotalError, match="not embeddings"), single.attached(0) as net:
        net(inputs_embeds=torch.zeros(1, 2, 16))
    planted = load_model("planted")
    with pytest.raises(PivotalError, match="planted is not a Transformers model"):
        planted.intervened(drawn(planted, "all"), "plural").attached()
