"""What is found in a transformer: which passes are right in it, and sites that are what their names say."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from tests.models.tiny import PREFIXES, _usual, random_model, tokenizer
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from pivotal.models import TransformersLM
from pivotal.models.transformers.anatomy import Anatomy, examine
from pivotal.models.transformers.trunk import Trunk
from pivotal.testing import check_model

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
    sizes = {"hidden_size": 256, "num_hidden_layers": 24, "intermediate_size": 512}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    config = LlamaConfig(**sizes, **heads, vocab_size=len(tokenizer()), initializer_range=0.06)
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


def test_rounding_alone_refuses_nothing(rough):
    with rounding(rough._model):
        assert rough.rounding > 0.025, "twice this is more than the former fixed tolerance"
        for _ in range(3):
            assert tried(rough) == (True, True, True)


@pytest.mark.parametrize("wrong", ["mask", "positions"])
def test_wrong_inputs_are_still_found(rough, wrong, monkeypatch):
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


def test_exact_passes_have_a_fixed_tolerance(trunk):
    assert trunk._eps is None and tried(trunk) == (True, True, True)
    with rounding(trunk._model):
        assert tried(trunk) == (False, False, False)


GROUPED = {"num_key_value_heads": 2}
UNUSUAL: dict[str, dict[str, Any]] = {
    # one attention and MLP for several blocks, which have a state-space model of their own
    "zamba2": {
        **_usual(**GROUPED, mamba_d_state=4, n_mamba_heads=4, mamba_ngroups=1, chunk_size=4),
        "layers_block_type": ["mamba", "hybrid", "mamba"],
        "num_mem_blocks": 1,
        "use_shared_attention_adapter": False,
        "use_mem_eff_path": False,
    },
    # what attends is projected by experts, which run on some positions only
    "jetmoe": _usual(**GROUPED, kv_channels=4, num_local_experts=4),
}


def unusual(kind: str) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **UNUSUAL[kind])).eval()


def places(kind: str) -> dict[str, str]:
    model = unusual(kind)
    paths = {module: path for path, module in model.named_modules()}
    found: Anatomy = examine(model, 24, torch.device("cpu"))
    return {tap.site.name: f"{paths[tap.module]}:{tap.side}" for tap in found.taps}


def test_a_block_within_a_block_has_an_attention_and_neurons():
    found = places("zamba2")
    within = "model.layers.1.shared_transformer"
    assert found["attn.1"] == found["head.1"] == f"{within}.self_attn.o_proj:input"
    assert found["mlp.1"] == f"{within}.feed_forward.down_proj:input"
    assert found["mixer.0"] == "model.layers.0.mamba.out_proj:input"


def test_what_is_not_behind_the_attention_is_not_its_site():
    assert {name.partition(".")[0] for name in places("jetmoe")} == {"resid"}


def test_an_adapter_is_a_part_of_the_projection_that_it_changes():
    peft = pytest.importorskip("peft")
    adapter = peft.LoraConfig(target_modules="all-linear", init_lora_weights=False)
    lm = TransformersLM("adapted", peft.get_peft_model(random_model("llama"), adapter), tokenizer())
    attended = lm.network.get_submodule("base_model.model.model.layers.1.self_attn.o_proj")
    assert next(tap.module for tap in lm.taps if tap.site.name == "attn.1") is attended
    assert lm.writes([lm.unit("attn.2:3")]) is None, "No single matrix of it says what a unit writes."


@pytest.mark.parametrize("kind", UNUSUAL)
def test_the_contract(kind):
    check_model(TransformersLM(kind, unusual(kind), tokenizer()), PREFIXES)
