"""Sites of unusual transformers: what stands under a name is what the name says, or nothing does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.models.tiny import PREFIXES, _usual, tokenizer

from pivotal.models.transformers.anatomy import Anatomy, examine
from pivotal.models.transformers.lm import TransformersLM
from pivotal.testing import check_model

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
    # blocks hand on several streams, and the last shares the keys and values of another
    "gemma3n_text": {
        **_usual(**GROUPED, head_dim=6, sliding_window=32, hidden_size_per_layer_input=4, laurel_rank=4),
        "num_hidden_layers": 4,
        "intermediate_size": [24] * 4,
        "vocab_size_per_layer_input": 24,
        "altup_num_inputs": 2,
        "num_kv_shared_layers": 1,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "activation_sparsity_pattern": [0.0] * 4,
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


def test_a_block_within_a_block_has_an_attention_and_neurons() -> None:
    found = places("zamba2")
    within = "model.layers.1.shared_transformer"
    assert found["attn.1"] == found["head.1"] == f"{within}.self_attn.o_proj:input"
    assert found["mlp.1"] == f"{within}.feed_forward.down_proj:input"
    assert found["mixer.0"] == "model.layers.0.mamba.out_proj:input"


def test_blocks_that_hand_on_several_streams_have_no_residual_stream() -> None:
    kinds = {name.partition(".")[0] for name in places("gemma3n_text")}
    assert kinds == {"attn", "head", "mlp"}


def test_what_is_not_behind_the_attention_is_not_its_site() -> None:
    assert {name.partition(".")[0] for name in places("jetmoe")} == {"resid"}


@pytest.mark.parametrize("kind", UNUSUAL)
def test_the_contract(kind: str) -> None:
    check_model(TransformersLM(kind, unusual(kind), tokenizer()), PREFIXES)
