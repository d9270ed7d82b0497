"""Which ways to run a transformer pass the comparison in number formats with few digits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from tests.models.tiny import tokenizer
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from pivotal.models.transformers.lm import TransformersLM
from pivotal.models.transformers.trunk import Trunk

BFLOAT16 = torch.finfo(torch.bfloat16).eps


def stochastically_rounded(x: Tensor) -> Tensor:
    """Round x to one of the two nearest bfloat16 numbers at random, so that no two passes round in the same way."""
    bits = x.contiguous().view(torch.int32)
    return ((bits + torch.randint_like(bits, 0, 1 << 16)) & ~0xFFFF).view(torch.float32)


@contextmanager
def rounding(model: nn.Module) -> Iterator[None]:
    """Within the block, every layer of the model rounds its output as on a GPU. A CPU may have no such products."""

    def output(_: nn.Module, __: Any, out: Tensor) -> Tensor:
        return stochastically_rounded(out)

    layers = [one for one in model.modules() if not [*one.children()]]
    handles = [one.register_forward_hook(output) for one in layers if isinstance(one, nn.Linear)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@pytest.fixture(scope="module")
def trunk() -> Trunk:
    """The trunk of a deep Llama with random weights. It amplifies rounding errors more than a shallow one."""
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=256,
        num_hidden_layers=24,
        intermediate_size=512,
        vocab_size=len(tokenizer()),
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.06,
    )
    return TransformersLM("deep", LlamaForCausalLM(config).eval(), tokenizer())._trunk


@pytest.fixture
def rough(trunk: Trunk, monkeypatch: pytest.MonkeyPatch) -> Trunk:
    """The same, judged as a model in bfloat16."""
    monkeypatch.setattr(trunk, "_eps", BFLOAT16)
    monkeypatch.delitem(trunk.__dict__, "rounding", raising=False)
    return trunk


def tried(trunk: Trunk) -> tuple[bool, bool, bool]:
    trunk._try()
    return trunk.packs, trunk.caches, trunk.skips


def test_rounding_alone_refuses_nothing(rough: Trunk) -> None:
    with rounding(rough._model):
        assert rough.rounding > 0.025, "twice this is more than the former fixed tolerance"
        for _ in range(3):
            assert tried(rough) == (True, True, True)


@pytest.mark.parametrize("wrong", ["mask", "positions"])
def test_a_wrong_mask_and_wrong_positions_are_still_found(
    rough: Trunk, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = Trunk._inputs

    def spoilt(self: Trunk, *args: Any) -> dict[str, Any]:
        given = inputs(self, *args)
        if "attention_mask" in given and wrong == "mask":
            causal = torch.ones(given["attention_mask"].shape[-2:], dtype=torch.bool).tril()
            lowest = torch.finfo(torch.float32).min
            given["attention_mask"] = torch.zeros(causal.shape).masked_fill(~causal, lowest)[None, None]
        if "position_ids" in given and wrong == "positions":
            positions = given["position_ids"]
            given["position_ids"] = torch.arange(positions.shape[1]).expand_as(positions)
        return given

    monkeypatch.setattr(Trunk, "_inputs", spoilt)
    with rounding(rough._model):
        assert tried(rough)[:2] == (False, False)


def test_exact_passes_have_a_fixed_tolerance(trunk: Trunk) -> None:
    assert trunk._eps is None and tried(trunk) == (True, True, True)
    with rounding(trunk._model):
        assert tried(trunk) == (False, False, False)
