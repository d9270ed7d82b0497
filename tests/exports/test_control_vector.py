"""Control vectors: what is in the file, and that pivotal and llama.cpp add it alike."""

import re
import shlex
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.exports.conftest import Tiny, basis, peer_python
from tests.exports.with_llama_cpp import FLOAT32, adding, in_peer, write_gguf
from tests.models.tiny import doctors
from torch import Tensor

from pivotal import PivotalError, Problem
from pivotal.exports import Portable, export
from pivotal.exports.control_vector import flips, vectors

Make = Callable[..., Tiny]
UNITS = (("mlp.1", 3), ("head.1", 2), ("resid.1", 5), ("mlp.2", 5))


@pytest.fixture(scope="module")
def portable(tiny: Make) -> Portable:
    return ready(tiny("llama"), UNITS)


def ready(model: Tiny, units: tuple[tuple[str, int], ...]) -> Portable:
    pairs = doctors("near", "behind", "near The", "quickly", firsts=("The", "Some"))
    sites = ",".join(site for site, _ in units)
    found = model.intervention(units)
    asked = replace(pairs, labels=("one", "two"))
    problem = Problem(model.lm.in_bases(found.bases), asked, sites=sites, steps="every")
    return Portable.of(model.lm, found, train=problem, test=problem)


def test_the_file_has_what_the_edit_adds_on_average(portable, tmp_path):
    from gguf import GGUFReader

    record = export(portable, "control-vector", tmp_path / "out")
    space, means = portable.train.space, portable.train.measure_activations().own
    layers = portable.model.network.model.layers
    for row, label in enumerate(portable.directions):
        reader = GGUFReader(tmp_path / "out" / f"{label}.gguf")
        assert reader.fields["general.architecture"].contents() == "controlvector"
        assert reader.fields["controlvector.model_hint"].contents() == "llama"
        assert reader.fields["controlvector.layer_count"].contents() == 2
        there = {tensor.name: torch.tensor(tensor.data.copy()) for tensor in reader.tensors}
        assert set(there) == {"direction.1", "direction.2"}
        value = portable.intervention.values[row, -1]
        mean = means[row, space.coordinates_of("mlp.2")][5]
        expected = (float(value) - mean) * layers[2].mlp.down_proj.weight[:, 5]
        assert torch.allclose(there["direction.2"], expected, atol=1e-6)
    assert "adds the same vector at every position" in record.approximate[0]
    assert "does not see the change of attention units" in record.approximate[1]
    flipped = r"On 40 held-out pairs of number, the control vector flips .* of a sentence\.$"
    assert re.search(flipped, record.approximate[2])


def test_a_unit_in_a_basis_adds_what_its_direction_writes(tiny):
    portable = ready(tiny("llama"), (("mlp.1@sae", 30), ("resid.2@pca", 5)))
    means, space = portable.train.measure_activations().own, portable.train.space
    added, values = vectors(portable)["one"], portable.intervention.values[0]
    weight = portable.model.network.model.layers[1].mlp.down_proj.weight
    moved = values[0] - means[0, space.coordinates_of("mlp.1@sae")][30]
    expected = moved * (weight @ basis(portable.model, "mlp.1@sae").decoder[30])
    assert torch.allclose(added[1], expected, atol=1e-6)
    moved = values[1] - means[0, space.coordinates_of("resid.2@pca")][5]
    assert torch.allclose(added[2], moved * basis(portable.model, "resid.2@pca").decoder[5], atol=1e-6)


def test_the_flips_are_those_of_a_model_with_the_vector_added(portable):
    """After block N, at every position, as llama.cpp does."""
    problem, added = portable.test, vectors(portable)
    network, flipped = portable.model.network, []
    for pair, direction in zip(problem.pairs, problem.direction, strict=True):
        words = [portable.model.tokens_of(word)[0] for word in pair.words]
        with adding(portable, added[portable.intervention.directions[direction]]):
            logits = network(input_ids=torch.tensor([portable.model.encode(pair.prefix).ids])).logits[0, -1]
        flipped.append(bool(logits[words[direction]] > logits[words[1 - direction]]))
    vector, units, pairs = flips(portable, added, problem)
    assert vector == pytest.approx(sum(flipped) / len(flipped)) and pairs == len(flipped) == 40
    exact = problem.run_intervention(portable.intervention).flipped()
    assert units == pytest.approx(float(exact.float().mean()))


def test_what_a_control_vector_cannot_express(tiny, tmp_path):
    def refused(units: tuple[tuple[str, int], ...], family: str, said: str) -> None:
        with pytest.raises(PivotalError, match=said):
            export(ready(tiny(family), units), "control-vector", tmp_path / "out")

    refused((("mlp.0", 3), ("mlp.1", 1)), "llama", r"cannot change the first block, where mlp\.0")
    refused((("mlp.1", 3), ("mlp.2", 1)), "gemma2", r"normalises or scales .* mlp\.1")
    model = tiny("llama")
    with pytest.raises(PivotalError, match=r"needs the pairs of the run.*run folder"):
        export(Portable.of(model.lm, model.intervention()), "control-vector", tmp_path / "out")
    assert not any(tmp_path.iterdir())


CLOSE = {"llama": 1e-5, "gpt2": 5e-3}
"""llama.cpp computes a Llama in float32. It looks up the GELU of GPT-2 in a table of 16-bit floats, which changes the
logits of the untouched model, too. A vector after the wrong block changes them by 0.3 or more."""


@torch.no_grad()
def in_transformers(portable: Portable, rows: list[list[int]], added: dict[int, Tensor]) -> np.ndarray:
    network = portable.model.network
    with adding(portable, added):
        return np.stack([network(input_ids=torch.tensor([row])).logits[0, -1].numpy() for row in rows])


@pytest.mark.slow
@pytest.mark.parametrize(("family", "bos"), [("llama", True), ("gpt2", False)])
def test_llama_cpp_adds_each_vector_after_its_block_at_every_position(tiny, family, bos, tmp_path):
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
    theirs, added = in_peer(python, "llama_cpp.py", tmp_path, cases), vectors(portable)
    assert set(added["two"]) == {1, 2}
    for found, (label, scale, _) in zip(theirs, scaled, strict=True):
        vector = {} if label is None else {block: scale * one for block, one in added[label].items()}
        assert np.abs(found - in_transformers(portable, rows, vector)).max() < close
        assert label is None or np.abs(found - theirs[0]).max() > 0.1
