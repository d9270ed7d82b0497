"""What a model computes in: another precision is the same model, and the searches do not notice."""

from __future__ import annotations

import pytest
import torch

from pivotal.errors import PivotalError
from pivotal.models import DTYPES, load_model
from pivotal.testing import check_model


def test_float64_keeps_the_contract_a_million_times_more_closely() -> None:
    model = load_model("planted", dtype="float64", device="cpu")
    noun, filler = model.word(10), model.word(3)
    check_model(model, [f"The {noun} {filler}", "The", f"The {filler} {noun}"], tolerance=1e-10)
    assert model.next_logits([(2, 10)]).dtype == torch.float64


def test_the_dtype_is_not_part_of_the_fingerprint() -> None:
    """An intervention may be applied in another precision than the one in which it was found."""
    single, double = (load_model("planted", dtype=dtype, device="cpu") for dtype in DTYPES[:2])
    assert single.fingerprint() == double.fingerprint()
    assert torch.allclose(single.next_logits([(2, 10)]).double(), double.next_logits([(2, 10)]), atol=1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", torch.float16])
def test_half_types_are_refused_on_the_cpu(dtype: str | torch.dtype) -> None:
    with pytest.raises(PivotalError, match=r"Half precision needs a GPU, but b?float16 .* --device cuda"):
        load_model("planted", dtype=dtype, device="cpu")


def test_an_unknown_dtype_is_refused() -> None:
    with pytest.raises(PivotalError, match=r"no dtype 'float33'.*Did you mean 'float32'"):
        load_model("planted", dtype="float33", device="cpu")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_types_keep_the_contract_on_a_gpu(dtype: str) -> None:
    model = load_model("planted", dtype=dtype, device="cuda")
    check_model(model, [f"The {model.word(10)}", "The", f"The {model.word(12)}"], tolerance=0.05)
    assert model.next_logits([(2, 10)]).dtype == torch.float32
