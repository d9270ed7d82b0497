"""A model that is spread over several places, as accelerate's device_map does with one that is too large for one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.models.tiny import PREFIXES, random_model, tokenizer

from pivotal.models.transformers.lm import TransformersLM
from pivotal.testing import check_model


@pytest.mark.parametrize("away", ["model.layers.0", "model.layers.1", "model.layers.2"])
@pytest.mark.slow
def test_a_block_that_is_kept_on_disk(tmp_path: Path, away: str) -> None:
    from transformers import AutoModelForCausalLM

    whole = random_model("llama")
    whole.save_pretrained(tmp_path / "model")
    places = dict.fromkeys(["model.embed_tokens", "model.norm", "model.rotary_emb", "lm_head"], "cpu")
    places |= {f"model.layers.{i}": "cpu" for i in range(3)} | {away: "disk"}
    spread = AutoModelForCausalLM.from_pretrained(
        tmp_path / "model", device_map=places, offload_folder=tmp_path / "offload", dtype=torch.float32
    )
    assert "disk" in set(spread.hf_device_map.values())
    lm = TransformersLM("spread", spread, tokenizer(), fingerprint="spread")
    check_model(lm, PREFIXES)
    ids = [lm.encode(PREFIXES[1]).ids]
    expected = TransformersLM("whole", whole, tokenizer()).next_logits(ids)
    torch.testing.assert_close(lm.next_logits(ids), expected)
