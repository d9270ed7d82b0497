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
from pivotal.exports.control_vector import _Add, flips, vectors

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


def test_the_logits_and_flips_of_pivotal_are_those_of_llama_cpp(tiny: Make, tmp_path: Path) -> None:
    python, model = peer_python("xllamacpp"), tiny("llama")
    portable = ready(model, UNITS)
    export(portable, "control-vector", tmp_path / "out")
    problem, added = portable.test, vectors(portable)
    assert problem is not None
    file = write_gguf(model.lm.network, tmp_path / "model.gguf")
    cases, chosen = [], [np.flatnonzero(problem.direction == row) for row in (0, 1)]
    for label, pairs in zip(("one", "two"), chosen, strict=True):
        arguments = ["--model", str(file), *FLOAT32, "--control-vector", f"{tmp_path}/out/{label}.gguf"]
        rows = [list(model.lm.encode(problem.pairs[n].prefix).ids) for n in pairs]
        cases.append({"arguments": arguments, "rows": rows})
    theirs = np.zeros((len(problem.pairs), model.lm.network.config.vocab_size), dtype=np.float32)
    for pairs, found in zip(chosen, llama_cpp(python, tmp_path, cases), strict=True):
        theirs[pairs] = found
    with torch.no_grad():
        states = model.lm.states(problem.tensors.prepared, _Add(portable, added))
        ours = model.lm.readout(states[problem.tree.live_row[problem.tree.leaf], 0]).numpy()
    assert np.abs(theirs - ours).max() < CLOSE["llama"]
    words = np.array([[model.lm.tokens_of(word)[0] for word in pair.words] for pair in problem.pairs])
    at = np.arange(len(words))
    flipped = theirs[at, words[at, problem.direction]] > theirs[at, words[at, 1 - problem.direction]]
    assert 0 < flipped.mean() == pytest.approx(flips(portable, added, problem)[0])
