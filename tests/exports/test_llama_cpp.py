"""llama.cpp itself reads the control vectors of pivotal, and adds them where pivotal does."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.exports.conftest import Tiny, peer_python
from tests.exports.test_control_vector import UNITS, ready
from tests.exports.with_llama_cpp import FLOAT32, adding, llama_cpp, write_gguf
from torch import Tensor

from pivotal.exports import Portable, export
from pivotal.exports.control_vector import vectors

pytestmark = pytest.mark.slow
Make = Callable[..., Tiny]
CLOSE = {"llama": 1e-5, "gpt2": 5e-3}
"""llama.cpp computes a Llama in float32. It looks up the GELU of GPT-2 in a table of 16-bit floats, which changes the
logits of the untouched model, too. A vector after the wrong block changes them by 0.3 or more."""


@torch.no_grad()
def in_transformers(portable: Portable, rows: list[list[int]], added: dict[int, Tensor]) -> np.ndarray:
    with adding(portable, added):
        return np.stack(
            [portable.model.network(input_ids=torch.tensor([row])).logits[0, -1].numpy() for row in rows]
        )


@pytest.mark.parametrize(("family", "bos"), [("llama", True), ("gpt2", False)])
def test_llama_cpp_adds_each_vector_after_its_block_at_every_position(
    tiny: Make, family: str, bos: bool, tmp_path: Path
) -> None:
    """Position 0 is no exception. The second case is the command of the README; the last makes a vector stronger."""
    python, model = peer_python("xllamacpp"), tiny(family, bos=bos)
    portable, rows, close = ready(model, UNITS), model.rows(), CLOSE[family]
    record = export(portable, "control-vector", tmp_path / "out")
    assert ("but not at the tokens before it" in record.approximate[2]) == bos
    file = write_gguf(model.lm.network, tmp_path / "model.gguf")
    readme = (tmp_path / "out" / "README.md").read_text().replace("one.gguf", f"{tmp_path}/out/one.gguf")
    (command,) = (line for line in readme.splitlines() if line.startswith("llama-completion -m MODEL.gguf "))
    assert f"`--control-vector-scaled {tmp_path}/out/one.gguf:1.5`" in readme
    scaled = [
        (None, 0.0, []),
        ("one", 1.0, shlex.split(command)[3:]),
        ("two", 1.0, ["--control-vector", f"{tmp_path}/out/two.gguf"]),
        ("two", 1.5, ["--control-vector-scaled", f"{tmp_path}/out/two.gguf:1.5"]),
    ]
    cases = [{"arguments": ["--model", str(file), *FLOAT32, *more], "rows": rows} for _, _, more in scaled]
    theirs, added = llama_cpp(python, tmp_path, cases), vectors(portable)
    assert set(added["two"]) == {1, 2}
    for found, (label, scale, _) in zip(theirs, scaled, strict=True):
        vector = {} if label is None else {block: scale * one for block, one in added[label].items()}
        assert np.abs(found - in_transformers(portable, rows, vector)).max() < close
        assert label is None or np.abs(found - theirs[0]).max() > 0.1
